package sqs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// The query protocol is what SQS spoke before JSON, and what the command lines of
// some distributions still do: a form in, XML out. It is translated to the JSON
// request and back, so that there is one meaning of every operation.

func isQuery(r *wire.Request) bool {
	return r.Header.Get("X-Amz-Target") == "" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
}

func (c *call) serveQuery(w http.ResponseWriter) {
	const namespace = "http://queue.amazonaws.com/doc/2012-11-05/"
	form, err := url.ParseQuery(string(c.Body))
	if err != nil {
		wire.WriteQuery(w, c.Request, namespace, "", wire.Bad("MalformedQueryString", "The query string is malformed."))
		return
	}
	c.Operation = form.Get("Action")
	request := newTree(form).request()
	if _, name, ok := strings.Cut(strings.TrimPrefix(c.URL.Path, "/"), "/"); ok && request["QueueUrl"] == nil && name != "" {
		request["QueueUrl"] = "http://" + c.Host + c.URL.Path // the oldest form: the queue is the path
	}
	c.Body, _ = json.Marshal(request) // texts, numbers, lists and maps always marshal
	result, failed := c.answer()
	if failed != nil {
		wire.WriteQuery(w, c.Request, namespace, "", &wire.Error{Status: failed.Status, Code: plainCode(failed), Message: failed.Message})
		return
	}
	wire.WriteQuery(w, c.Request, namespace, xmlOf(result, c.Operation), nil)
}

// tree is a form whose names are taken apart at their dots.
type tree struct {
	value    string
	branches map[string]*tree
}

func newTree(form url.Values) *tree {
	root := &tree{branches: map[string]*tree{}}
	for name, values := range form {
		at := root
		for _, part := range strings.Split(name, ".") {
			if at.branches[part] == nil {
				at.branches[part] = &tree{branches: map[string]*tree{}}
			}
			at = at.branches[part]
		}
		at.value = values[0]
	}
	return root
}

// numbered returns the branches 1, 2, 3 ... in order.
func (t *tree) numbered() (all []*tree) {
	var numbers []int
	for name := range t.branches {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		all = append(all, t.branches[strconv.Itoa(n)])
	}
	return all
}

func (t *tree) text(name string) string {
	if b := t.branches[name]; b != nil {
		return b.value
	}
	return ""
}

// request returns the parameters of an operation or of an entry as the JSON protocol
// has them. What belongs to no operation is left as it is, to be refused there.
func (t *tree) request() map[string]any {
	in := map[string]any{}
	for name, b := range t.branches {
		switch name {
		case "Action", "Version":
		case "AttributeName", "MessageAttributeName", "MessageSystemAttributeName", "TagKey":
			var list []string
			for _, item := range b.numbered() {
				list = append(list, item.value)
			}
			in[name+"s"] = list
		case "Attribute", "Tag":
			in[name+"s"] = b.pairs()
		case "MessageAttribute", "MessageSystemAttribute":
			in[name+"s"] = b.attributes()
		case "SendMessageBatchRequestEntry", "DeleteMessageBatchRequestEntry", "ChangeMessageVisibilityBatchRequestEntry":
			var entries []map[string]any
			for _, entry := range b.numbered() {
				entries = append(entries, entry.request())
			}
			in["Entries"] = entries
		case attrDelay, attrVisibility, "WaitTimeSeconds", "MaxNumberOfMessages", "MaxNumberOfMessagesPerSecond", "MaxResults":
			in[name] = json.Number(b.value)
			if _, err := strconv.Atoi(b.value); err != nil {
				in[name] = b.value // no number: refused when it is read
			}
		default:
			in[name] = b.value
		}
	}
	return in
}

// pairs reads Attribute.1.Name and .Value, or Tag.1.Key and .Value.
func (t *tree) pairs() map[string]string {
	all := map[string]string{}
	for _, pair := range t.numbered() {
		all[pair.text("Name")+pair.text("Key")] = pair.text("Value")
	}
	return all
}

func (t *tree) attributes() map[string]any {
	all := map[string]any{}
	for _, attribute := range t.numbered() {
		value := map[string]string{}
		if b := attribute.branches["Value"]; b != nil {
			for name, part := range b.branches {
				value[name] = part.value
			}
		}
		all[attribute.text("Name")] = value
	}
	return all
}

// xmlOf writes an answer as XML: what is a list in JSON is one element for each
// item, and what is a map one for each pair.
func xmlOf(result any, operation string) string {
	text, _ := json.Marshal(result) // answers always marshal
	var plain map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&plain) != nil {
		return ""
	}
	var b strings.Builder
	writeMembers(&b, plain, operation)
	return b.String()
}

func writeMembers(b *strings.Builder, members map[string]any, operation string) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch value := members[name].(type) {
		case []any:
			for _, item := range value {
				writeElement(b, itemName(name, operation), item, operation)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				one, label := strings.TrimSuffix(name, "s"), "Name"
				if one == "Tag" {
					label = "Key"
				}
				writeElement(b, one, map[string]any{label: key, "Value": element{value[key]}}, operation)
			}
		case element:
			writeElement(b, name, value.content, operation)
		default:
			writeElement(b, name, value, operation)
		}
	}
}

// element is content that is written as it stands, and not as pairs.
type element struct{ content any }

// itemName is what an item of the list is called.
func itemName(list, operation string) string {
	switch list {
	case "QueueUrls", "queueUrls":
		return "QueueUrl"
	case "Messages":
		return "Message"
	case "Successful", "Results":
		return operation + "ResultEntry"
	case "Failed":
		return "BatchResultErrorEntry"
	default:
		return list
	}
}

func writeElement(b *strings.Builder, name string, content any, operation string) {
	b.WriteString("<" + name + ">")
	if members, ok := content.(map[string]any); ok {
		writeMembers(b, members, operation)
	} else if content != nil {
		b.WriteString(wire.Text(fmt.Sprint(content)))
	}
	b.WriteString("</" + name + ">")
}
