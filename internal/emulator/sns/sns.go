// Package sns is the embedded AWS's SNS: topics that are there, and who hears of them.
//
// An alarm that nobody is subscribed to, or whose subscription nobody confirmed,
// looks like quiet. A tool that checks a deployment has to see this, so topics and
// their subscriptions are declared from Go in any of their states. Nothing is
// published or sent: everything but the two questions about a topic is refused.
package sns

import (
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const namespace = "http://sns.amazonaws.com/doc/2010-03-31/"

// Topic is a topic with its subscriptions.
type Topic struct {
	Region, Name  string
	Subscriptions []Subscription
}

// Subscription is somebody who hears of a topic, once it is confirmed.
type Subscription struct {
	// Protocol is one of SNS's, such as email or https, and Endpoint the address in it.
	Protocol, Endpoint string
	// Pending: it has not been confirmed, and nothing reaches it.
	Pending bool
}

// Service is SNS in every region. It is safe for concurrent use.
type Service struct {
	mu     sync.Mutex
	topics map[string]Topic // by ARN
}

var _ wire.Service = (*Service)(nil)

// New returns an SNS without topics.
func New() *Service { return &Service{topics: map[string]Topic{}} }

// maxPage is how many subscriptions SNS lists at once. A topic here has no more.
const maxPage = 100

var topicName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)

// Declare adds a topic, or gives one that is there other subscriptions, and returns
// its ARN.
func (s *Service) Declare(t Topic) (string, error) {
	switch {
	case t.Region == "":
		return "", errors.New("sns: a topic is in a region")
	case !topicName.MatchString(t.Name):
		return "", errors.New("sns: no topic can be called " + strconv.Quote(t.Name))
	case len(t.Subscriptions) > maxPage:
		return "", errors.New("sns: a topic has at most 100 subscriptions here")
	}
	for _, sub := range t.Subscriptions {
		if sub.Protocol == "" || sub.Endpoint == "" {
			return "", errors.New("sns: a subscription has a protocol and an endpoint")
		}
	}
	t.Subscriptions = slices.Clone(t.Subscriptions)
	arn := "arn:aws:sns:" + t.Region + ":" + wire.Account + ":" + t.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topics[arn] = t
	return arn, nil
}

// Scope is the service's name in a credential scope.
func (s *Service) Scope() string { return "sns" }

// Operation names the operation of a request.
func (s *Service) Operation(r *http.Request) string { return wire.Action(r) }

// Serve answers a request.
func (s *Service) Serve(w http.ResponseWriter, r *wire.Request) {
	result, err := s.answer(r)
	wire.WriteQuery(w, r, namespace, result, err)
}

func (s *Service) answer(r *wire.Request) (string, *wire.Error) {
	if injected := wire.FateOf(r.Context()).Error; injected != nil {
		return "", injected
	}
	operations := map[string]func(arn string, t Topic) string{
		"GetTopicAttributes": attributes, "ListSubscriptionsByTopic": subscriptions,
	}
	operation, ok := operations[r.Operation]
	if !ok {
		return "", wire.Unsupported("the SNS operation " + strconv.Quote(r.Operation))
	}
	form, err := wire.Form(r, "TopicArn")
	if err != nil {
		return "", err
	}
	arn := form.Get("TopicArn")
	s.mu.Lock()
	t, found := s.topics[arn]
	s.mu.Unlock()
	switch {
	case !strings.HasPrefix(arn, "arn:aws:sns:"):
		return "", wire.Bad("InvalidParameter", "Invalid parameter: TopicArn")
	case !found || t.Region != r.Region:
		return "", &wire.Error{Status: http.StatusNotFound, Code: "NotFound", Message: "Topic does not exist"}
	}
	return operation(arn, t), nil
}

func attributes(arn string, t Topic) string {
	pending := 0
	for _, sub := range t.Subscriptions {
		if sub.Pending {
			pending++
		}
	}
	all := map[string]string{
		"TopicArn": arn, "Owner": wire.Account, "DisplayName": "", "SubscriptionsDeleted": "0",
		"SubscriptionsConfirmed": strconv.Itoa(len(t.Subscriptions) - pending), "SubscriptionsPending": strconv.Itoa(pending),
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.WriteString("<entry>" + wire.Element("key", name) + wire.Element("value", all[name]) + "</entry>")
	}
	return "<Attributes>" + b.String() + "</Attributes>"
}

func subscriptions(arn string, t Topic) string {
	var b strings.Builder
	for _, sub := range t.Subscriptions {
		own := arn + ":" + wire.StableID(arn+" "+sub.Protocol+" "+sub.Endpoint)
		if sub.Pending {
			own = "PendingConfirmation"
		}
		b.WriteString("<member>" + wire.Element("TopicArn", arn) + wire.Element("SubscriptionArn", own) + wire.Element("Owner", wire.Account) +
			wire.Element("Protocol", sub.Protocol) + wire.Element("Endpoint", sub.Endpoint) + "</member>")
	}
	return "<Subscriptions>" + b.String() + "</Subscriptions>"
}
