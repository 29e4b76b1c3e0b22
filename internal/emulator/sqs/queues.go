package sqs

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// pause is how long after deleting a queue its name stays taken, and after purging
// one it can not be purged again.
const pause = 60 * time.Second

func (c *call) urlOf(q *queue) string {
	return "http://" + c.Host + "/" + wire.Account + "/" + q.name
}

type queueAnswer struct {
	URL string `json:"QueueUrl"`
}

type createQueueInput struct {
	QueueName  string
	Attributes map[string]string
	Tags       map[string]string `json:"tags"` // this case in SQS's model; the decoder takes any
}

func (c *call) createQueue(in *createQueueInput) (any, *wire.Error) {
	if in.Attributes["FifoQueue"] == "true" || strings.HasSuffix(in.QueueName, ".fifo") {
		return nil, wire.Unsupported("FIFO queues")
	}
	if !isName(in.QueueName, 80) {
		return nil, invalid("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	g := c.region
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.settle()
	arn := g.arn(in.QueueName)
	if q := g.queues[in.QueueName]; q != nil {
		asked, err := g.change(q.shown, arn, in.Attributes)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(in.Attributes)) {
			if asked.shown[name] != q.shown[name] {
				return nil, wire.Bad("QueueNameExists", "A queue already exists with the same name and a different value for attribute "+name)
			}
		}
		return queueAnswer{c.urlOf(q)}, nil
	}
	if at, ok := g.deleted[in.QueueName]; ok && now.Before(at.Add(pause)) {
		return nil, wire.Bad("QueueDeletedRecently", "You must wait 60 seconds after deleting a queue before you can create another with the same name.")
	}
	set, err := g.change(defaults(), arn, in.Attributes)
	if err != nil {
		return nil, err
	}
	q := newQueue(in.QueueName, arn, set, now)
	maps.Copy(q.tags, in.Tags)
	g.queues[q.name] = q
	return queueAnswer{c.urlOf(q)}, nil
}

// isName reports whether the text is made of what queue names and batch ids may
// hold.
func isName(text string, most int) bool {
	for _, r := range text {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return false
		}
	}
	return text != "" && len(text) <= most
}

type getQueueURLInput struct {
	QueueName string
	Owner     string `json:"QueueOwnerAWSAccountId"`
}

func (c *call) getQueueURL(in *getQueueURLInput) (any, *wire.Error) {
	if in.Owner != "" && in.Owner != wire.Account {
		return nil, noQueue()
	}
	return c.region.on(in.QueueName, func(q *queue, _ time.Time) (any, *wire.Error) {
		return queueAnswer{c.urlOf(q)}, nil
	})
}

type listQueuesInput struct {
	QueueNamePrefix string
	MaxResults      *int
	NextToken       string
}

func (c *call) listQueues(in *listQueuesInput) (any, *wire.Error) {
	g := c.region
	g.mu.Lock()
	defer g.mu.Unlock()
	urls, next, err := c.page(in.MaxResults, in.NextToken, func(q *queue) bool { return strings.HasPrefix(q.name, in.QueueNamePrefix) })
	return struct {
		URLs []string `json:"QueueUrls,omitempty"`
		Next string   `json:"NextToken,omitempty"`
	}{urls, next}, err
}

type listDeadLetterSourceQueuesInput struct {
	QueueURL   string `json:"QueueUrl"`
	MaxResults *int
	NextToken  string
}

func (c *call) listDeadLetterSourceQueues(in *listDeadLetterSourceQueuesInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(letters *queue, _ time.Time) (any, *wire.Error) {
		urls, next, err := c.page(in.MaxResults, in.NextToken, func(q *queue) bool { return q.redrive.target == letters.arn })
		return struct {
			URLs []string `json:"queueUrls"` // this case, unlike ListQueues
			Next string   `json:"NextToken,omitempty"`
		}{urls, next}, err
	})
}

// page returns the URLs of a page of queues, in the order of their names. The token
// is the name that the page before ended with.
func (c *call) page(most *int, token string, want func(*queue) bool) (urls []string, next string, err *wire.Error) {
	limit := 1000
	if most != nil {
		limit = *most
	}
	if limit < 1 || limit > 1000 {
		return nil, "", badValue(limit, "MaxResults", "Must be between 1 and 1000, if provided.")
	}
	urls = []string{}
	last := ""
	for _, name := range slices.Sorted(maps.Keys(c.region.queues)) {
		q := c.region.queues[name]
		if name <= token || !want(q) {
			continue
		}
		if len(urls) == limit {
			if most != nil { // without MaxResults there is one page only
				next = last
			}
			break
		}
		urls = append(urls, c.urlOf(q))
		last = name
	}
	return urls, next, nil
}

type queueInput struct {
	QueueURL string `json:"QueueUrl"`
}

func (c *call) deleteQueue(in *queueInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, now time.Time) (any, *wire.Error) {
		delete(c.region.queues, q.name)
		c.region.deleted[q.name] = now
		q.ring()
		return nothing{}, nil
	})
}

func (c *call) purgeQueue(in *queueInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, now time.Time) (any, *wire.Error) {
		if now.Before(q.purged.Add(pause)) {
			return nil, &wire.Error{
				Status: http.StatusForbidden, Code: "PurgeQueueInProgress",
				Message: "Only one PurgeQueue operation on " + q.name + " is allowed every 60 seconds.",
			}
		}
		q.purged = now
		q.clear()
		return nothing{}, nil
	})
}

type getQueueAttributesInput struct {
	QueueURL       string `json:"QueueUrl"`
	AttributeNames []string
}

func (c *call) getQueueAttributes(in *getQueueAttributesInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, _ time.Time) (any, *wire.Error) {
		all, some := q.attributesOf(), map[string]string{}
		for _, name := range in.AttributeNames {
			value, has := all[name]
			switch {
			case name == "All":
				maps.Copy(some, all)
			case has:
				some[name] = value
			case !isAttribute(name):
				return nil, unknownAttribute(name)
			}
		}
		return struct {
			Attributes map[string]string `json:",omitempty"`
		}{some}, nil
	})
}

type setQueueAttributesInput struct {
	QueueURL   string `json:"QueueUrl"`
	Attributes map[string]string
}

func (c *call) setQueueAttributes(in *setQueueAttributesInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, now time.Time) (any, *wire.Error) {
		set, err := c.region.change(q.shown, q.arn, in.Attributes)
		if err != nil {
			return nil, err
		}
		q.settings, q.modified = set, now
		return nothing{}, nil
	})
}

type tagQueueInput struct {
	QueueURL string `json:"QueueUrl"`
	Tags     map[string]string
}

func (c *call) tagQueue(in *tagQueueInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, _ time.Time) (any, *wire.Error) {
		maps.Copy(q.tags, in.Tags)
		return nothing{}, nil
	})
}

type untagQueueInput struct {
	QueueURL string `json:"QueueUrl"`
	TagKeys  []string
}

func (c *call) untagQueue(in *untagQueueInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, _ time.Time) (any, *wire.Error) {
		for _, key := range in.TagKeys {
			delete(q.tags, key)
		}
		return nothing{}, nil
	})
}

func (c *call) listQueueTags(in *queueInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, _ time.Time) (any, *wire.Error) {
		return struct {
			Tags map[string]string `json:",omitempty"`
		}{maps.Clone(q.tags)}, nil
	})
}

// seconds reads a number of seconds that a request may leave out.
func seconds(parameter string, given *int, otherwise time.Duration, most int) (time.Duration, *wire.Error) {
	if given == nil {
		return otherwise, nil
	}
	if *given < 0 || *given > most {
		return 0, badValue(*given, parameter, "Must be >= 0 and <= "+strconv.Itoa(most)+", if provided.")
	}
	return time.Duration(*given) * time.Second, nil
}
