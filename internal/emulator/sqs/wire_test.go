package sqs_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

func TestNotOffered(t *testing.T) {
	c := newCloud(t)
	c.create("pages")
	at := "http://127.0.0.1:4566/000000000000/pages"
	for _, row := range []struct {
		operation string
		body      any
		status    int
	}{
		{"CreateQueue", object{"QueueName": "pages.fifo"}, 501},
		{"CreateQueue", object{"QueueName": "pages2", "Attributes": object{"FifoQueue": "true"}}, 501},
		{"AddPermission", object{"QueueUrl": at}, 501},
		{"RemovePermission", object{"QueueUrl": at}, 501},
		{"SendMessage", object{"QueueUrl": at, "MessageBody": "a", "MessageDeduplicationId": "d"}, 501},
		{"SendMessage", object{"QueueUrl": at, "MessageBody": "a", "Priority": 1}, 501},
		{"ReceiveMessage", object{"QueueUrl": at, "ReceiveRequestAttemptId": "d"}, 501},
		{"PublishMessage", object{}, 400},
		{"", object{}, 400},
		{"SendMessage", "{", 400},
		{"SendMessage", "", 400},
		{"SendMessage", `{"MessageBody":"a"}{}`, 400},
		{"SendMessage", `{"DelaySeconds":"5"}`, 400},
	} {
		if a := c.ask(row.operation, row.body); a.status != row.status || a.code() == "" {
			t.Errorf("%s %v: %d %v", row.operation, row.body, a.status, a.body)
		}
	}
	if peek, err := c.service.Queue(region, "pages"); err != nil || len(peek.Peek()) != 0 {
		t.Errorf("something was sent, %v", err)
	}
}

func TestRefused(t *testing.T) {
	c := newCloud(t)
	c.create("pages")
	at := "http://127.0.0.1:4566/000000000000/pages"
	text := func(name string, value object) object {
		return object{"QueueUrl": at, "MessageBody": "a", "MessageAttributes": object{name: value}}
	}
	word := object{"DataType": "String", "StringValue": "x"}
	for _, row := range []struct {
		operation string
		body      object
		code      string
	}{
		{"SendMessage", object{"MessageBody": "a"}, "MissingRequiredParameterException"},
		{"SendMessage", object{"QueueUrl": "pages", "MessageBody": "a"}, "InvalidAddress"},
		{"SendMessage", object{"QueueUrl": "http://h/111122223333/pages", "MessageBody": "a"}, "QueueDoesNotExist"},
		{"SendMessage", object{"QueueUrl": "http://h/pages", "MessageBody": "a"}, "QueueDoesNotExist"},
		{"SendMessage", object{"QueueUrl": at}, "MissingRequiredParameterException"},
		{"SendMessage", object{"QueueUrl": at, "MessageBody": "a", "MessageGroupId": ""}, "InvalidParameterValueException"},
		{"SendMessage", object{"QueueUrl": at, "MessageBody": "a", "DelaySeconds": -1}, "InvalidParameterValueException"},
		{"SendMessage", text("AWS.name", word), "InvalidParameterValueException"},
		{"SendMessage", text("amazon.name", word), "InvalidParameterValueException"},
		{"SendMessage", text(".name", word), "InvalidParameterValueException"},
		{"SendMessage", text("na..me", word), "InvalidParameterValueException"},
		{"SendMessage", text("na me", word), "InvalidParameterValueException"},
		{"SendMessage", text("", word), "InvalidParameterValueException"},
		{"SendMessage", text("name", object{"DataType": "String"}), "InvalidParameterValueException"},
		{"SendMessage", text("name", object{"DataType": "String", "StringValue": ""}), "InvalidParameterValueException"},
		{"SendMessage", text("name", object{"DataType": "String", "StringValue": "\x01"}), "InvalidMessageContents"},
		{"SendMessage", text("name", object{"DataType": "Number", "StringValue": "many"}), "InvalidParameterValueException"},
		{"SendMessage", text("name", object{"DataType": "Binary", "StringValue": "x"}), "InvalidParameterValueException"},
		{"SendMessage", text("name", object{"DataType": strings.Repeat("String.", 40), "StringValue": "x"}), "InvalidParameterValueException"},
		{"SendMessage", text("name", object{"StringValue": "x"}), "InvalidParameterValueException"},
		{"SendMessage", text("name", object{"DataType": "String", "StringListValues": []string{"x"}}), "UnsupportedOperation"},
		{"SendMessage", object{"QueueUrl": at, "MessageBody": "a", "MessageSystemAttributes": object{"Other": word}}, "InvalidParameterValueException"},
		{"SendMessage", object{"QueueUrl": at, "MessageBody": "a", "MessageSystemAttributes": object{"AWSTraceHeader": object{"DataType": "Number", "StringValue": "1"}}}, "InvalidParameterValueException"},
		{"ReceiveMessage", object{"QueueUrl": at, "MaxNumberOfMessages": 0}, "InvalidParameterValueException"},
		{"ReceiveMessage", object{"QueueUrl": at, "MaxNumberOfMessages": 11}, "InvalidParameterValueException"},
		{"ReceiveMessage", object{"QueueUrl": at, "WaitTimeSeconds": 21}, "InvalidParameterValueException"},
		{"ReceiveMessage", object{"QueueUrl": at, "VisibilityTimeout": 43201}, "InvalidParameterValueException"},
		{"ReceiveMessage", object{"QueueUrl": at, "AttributeNames": []string{"Nonsense"}}, "InvalidAttributeName"},
		{"DeleteMessage", object{"QueueUrl": at}, "MissingRequiredParameterException"},
		{"DeleteMessage", object{"QueueUrl": at, "ReceiptHandle": "AAAA"}, "ReceiptHandleIsInvalid"},
		{"ChangeMessageVisibility", object{"QueueUrl": at, "ReceiptHandle": "AAAA"}, "MissingRequiredParameterException"},
		{"GetQueueUrl", object{"QueueName": "pages", "QueueOwnerAWSAccountId": "111122223333"}, "QueueDoesNotExist"},
		{"CreateQueue", object{"QueueName": "a b"}, "InvalidParameterValueException"},
		{"CreateQueue", object{"QueueName": strings.Repeat("a", 81)}, "InvalidParameterValueException"},
		{"CreateQueue", object{}, "InvalidParameterValueException"},
		{"CreateQueue", object{"QueueName": "a", "Attributes": object{"Nonsense": "1"}}, "InvalidAttributeName"},
		{"CreateQueue", object{"QueueName": "a", "Attributes": object{"RedriveAllowPolicy": `{"redrivePermission":"byQueue"}`}}, "InvalidParameterValueException"},
		{"CreateQueue", object{"QueueName": "a", "Attributes": object{"RedriveAllowPolicy": `{"redrivePermission":"denyAll","sourceQueueArns":["x"]}`}}, "InvalidParameterValueException"},
		{"CreateQueue", object{"QueueName": "a", "Attributes": object{"RedriveAllowPolicy": `{"redrivePermission":"some"}`}}, "InvalidParameterValueException"},
		{"CreateQueue", object{"QueueName": "a", "Attributes": object{"RedriveAllowPolicy": `x`}}, "InvalidParameterValueException"},
		{"CreateQueue", object{"QueueName": "a", "Attributes": object{"RedrivePolicy": `{"maxReceiveCount":1}`}}, "InvalidParameterValueException"},
		{"CreateQueue", object{"QueueName": "a", "Attributes": object{"RedrivePolicy": `{"maxReceiveCount":1,"other":1}`}}, "InvalidParameterValueException"},
		{"CreateQueue", object{"QueueName": "a", "Attributes": object{"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}}, "InvalidAttributeValue"},
		{"ListQueues", object{"MaxResults": 0}, "InvalidParameterValueException"},
	} {
		c.refused(row.operation, row.body, row.code)
	}
	q, err := c.service.Queue(region, "pages")
	c.ok(err)
	c.counts(q, 0, 0, 0)
}

// SDKs find an error by its type, their users by the code in the header.
func TestErrorForm(t *testing.T) {
	c := newCloud(t)
	c.create("pages")
	a := c.refused("SendMessage", object{"QueueUrl": queueURL("gone"), "MessageBody": "a"}, "QueueDoesNotExist")
	if a.code() != "com.amazonaws.sqs#QueueDoesNotExist" || a.header.Get("X-Amzn-Query-Error") != "AWS.SimpleQueueService.NonExistentQueue;Sender" || a.status != 400 {
		t.Errorf("%d %v %v", a.status, a.header, a.body)
	}
	for _, row := range []struct {
		given wire.Error
		code  string
		query string
	}{
		{wire.Error{Status: 403, Code: "RequestThrottled"}, "com.amazonaws.sqs#RequestThrottled", "RequestThrottled;Sender"},
		{wire.Error{Status: 403, Code: "AccessDeniedException"}, "com.amazon.coral.service#AccessDeniedException", "AccessDenied;Sender"},
		{wire.Error{Status: 400, Code: "KmsAccessDenied"}, "com.amazonaws.sqs#KmsAccessDenied", "KMS.AccessDeniedException;Sender"},
		{wire.Error{Status: 400, Code: "KmsThrottled"}, "com.amazonaws.sqs#KmsThrottled", "KMS.ThrottlingException;Sender"},
		{wire.Error{Status: 403, Code: "KmsOptInRequired"}, "com.amazonaws.sqs#KmsOptInRequired", "KMS.OptInRequired;Sender"},
		{wire.Error{Status: 500, Code: "InternalFailure"}, "com.amazon.coral.service#InternalFailure", ""},
		{wire.Error{Status: 503, Code: "ServiceUnavailable"}, "com.amazon.coral.service#ServiceUnavailable", ""},
		{wire.Error{Status: 400, Code: "x.y#Z"}, "x.y#Z", ""},
	} {
		c.meet(wire.Fate{Error: &row.given})
		a := c.ask("SendMessage", object{"QueueUrl": queueURL("pages"), "MessageBody": "a"})
		if a.status != row.given.Status || a.code() != row.code || a.header.Get("X-Amzn-Query-Error") != row.query {
			t.Errorf("%s: %d %v %v", row.given.Code, a.status, a.body, a.header)
		}
	}
	q, err := c.service.Queue(region, "pages")
	c.ok(err)
	c.counts(q, 0, 0, 0)
}

// Entries that fail, before and after they were carried out, in each kind of batch.
func TestBatchFaults(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages")
	at := queueURL("pages")
	b := func(id string) *wire.Error {
		if id == "b" {
			return &wire.Error{Status: 500, Code: "InternalFailure", Message: "in words"}
		}
		return nil
	}
	entry := func(id, body string) object { return object{"Id": id, "MessageBody": body} }
	check := func(a answer) {
		t.Helper()
		failed := a.list("Failed")
		if len(a.list("Successful")) != 1 || len(failed) != 1 || failed[0]["Id"] != "b" || failed[0]["Code"] != "InternalFailure" || failed[0]["SenderFault"] != false {
			t.Errorf("%v", a.body)
		}
	}
	c.meet(wire.Fate{Entries: b})
	check(c.do("SendMessageBatch", object{"QueueUrl": at, "Entries": []object{entry("a", "1"), entry("b", "2")}}))
	c.counts(q, 1, 0, 0)
	c.meet(wire.Fate{EntriesAfter: b})
	check(c.do("SendMessageBatch", object{"QueueUrl": at, "Entries": []object{entry("a", "3"), entry("b", "4")}}))
	c.counts(q, 3, 0, 0)
	got := c.receive(q)
	handles := []object{{"Id": "a", "ReceiptHandle": got[0].Handle, "VisibilityTimeout": 0}, {"Id": "b", "ReceiptHandle": got[1].Handle, "VisibilityTimeout": 0}}
	c.meet(wire.Fate{Entries: b})
	check(c.do("ChangeMessageVisibilityBatch", object{"QueueUrl": at, "Entries": handles}))
	c.counts(q, 1, 2, 0)
	for _, h := range handles {
		delete(h, "VisibilityTimeout")
	}
	check(c.do("DeleteMessageBatch", object{"QueueUrl": at, "Entries": handles}))
	c.counts(q, 0, 2, 0)
	c.meet(wire.Fate{EntriesAfter: b})
	handles[0]["ReceiptHandle"] = got[2].Handle
	check(c.do("DeleteMessageBatch", object{"QueueUrl": at, "Entries": handles}))
	c.counts(q, 0, 0, 0)
}

func TestNamesAreFreeAfterAMinute(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages")
	c.send(q, "a")
	c.do("PurgeQueue", object{"QueueUrl": queueURL("pages")})
	c.counts(q, 0, 0, 0)
	if a := c.refused("PurgeQueue", object{"QueueUrl": queueURL("pages")}, "PurgeQueueInProgress"); a.status != 403 {
		t.Errorf("status %d", a.status)
	}
	c.do("DeleteQueue", object{"QueueUrl": queueURL("pages")})
	c.clock.Advance(time.Minute - 1)
	c.refused("CreateQueue", object{"QueueName": "pages"}, "QueueDeletedRecently")
	c.clock.Advance(1)
	c.create("pages")
}

// The same policy in other words is the same policy.
func TestAttributesInOneForm(t *testing.T) {
	c := newCloud(t)
	c.create("letters")
	arn := "arn:aws:sqs:" + region + ":000000000000:letters"
	q := c.create("pages", "RedrivePolicy", `{ "maxReceiveCount": "3", "deadLetterTargetArn": "`+arn+`" }`, "VisibilityTimeout", "007")
	want := `{"deadLetterTargetArn":"` + arn + `","maxReceiveCount":3}`
	if got := q.Attribute("RedrivePolicy"); got != want {
		t.Errorf("the policy is %s", got)
	}
	c.create("pages", "RedrivePolicy", want, "VisibilityTimeout", "7")
	c.create("pages")
	c.refused("CreateQueue", object{"QueueName": "pages", "Attributes": object{"RedrivePolicy": strings.Replace(want, "3", "4", 1)}}, "QueueNameExists")
	c.do("SetQueueAttributes", object{"QueueUrl": queueURL("pages"), "Attributes": object{"RedrivePolicy": ""}})
	if got := q.Attribute("RedrivePolicy"); got != "" {
		t.Errorf("the policy is %s", got)
	}
	c.do("SetQueueAttributes", object{"QueueUrl": queueURL("pages"), "Attributes": object{"KmsMasterKeyId": "alias/k", "Policy": `{"a":1}`}})
	for name, want := range map[string]string{
		"KmsMasterKeyId": "alias/k", "KmsDataKeyReusePeriodSeconds": "300", "SqsManagedSseEnabled": "false", "Policy": `{"a":1}`, "DelaySeconds": "0",
	} {
		if got := q.Attribute(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if a := c.do("GetQueueAttributes", object{"QueueUrl": queueURL("pages"), "AttributeNames": []string{"FifoQueue"}}); a.body["Attributes"] != nil {
		t.Errorf("%v", a.body)
	}
}

// form asks in the old query protocol.
func (c *cloud) form(path string, pairs ...string) (int, string) {
	c.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:4566"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20261201/"+region+"/sqs/aws4_request, SignedHeaders=host, Signature=0")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	w := httptest.NewRecorder()
	c.aws.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestQueryProtocol(t *testing.T) {
	c := newCloud(t)
	const at = "/000000000000/pages"
	has := func(status int, text string, want int, parts ...string) {
		t.Helper()
		if status != want {
			t.Errorf("status %d: %s", status, text)
		}
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("no %s in %s", part, text)
			}
		}
	}
	ask := func(want int, parts []string, path string, pairs ...string) string {
		t.Helper()
		status, text := c.form(path, pairs...)
		has(status, text, want, parts...)
		return text
	}
	ask(200, []string{"<CreateQueueResponse ", "<CreateQueueResult><QueueUrl>http://127.0.0.1:4566" + at + "</QueueUrl>", "<ResponseMetadata><RequestId>"}, "/",
		"Action", "CreateQueue", "Version", "2012-11-05", "QueueName", "pages", "Attribute.1.Name", "VisibilityTimeout", "Attribute.1.Value", "7", "Tag.1.Key", "k", "Tag.1.Value", "v")
	ask(200, []string{"<Attribute><Name>VisibilityTimeout</Name><Value>7</Value></Attribute>"}, "/",
		"Action", "GetQueueAttributes", "QueueUrl", queueURL("pages"), "AttributeName.1", "VisibilityTimeout")
	ask(200, []string{"<Tag><Key>k</Key><Value>v</Value></Tag>"}, at, "Action", "ListQueueTags")
	ask(200, []string{"<QueueUrl>http://127.0.0.1:4566" + at + "</QueueUrl>"}, "/", "Action", "ListQueues", "MaxResults", "1")
	ask(200, []string{"<MD5OfMessageBody>", "<MessageId>", "<MD5OfMessageAttributes>ae7155c6026991b6d54b11589678bf9c<"}, at,
		"Action", "SendMessage", "MessageBody", "<a&b>", "MessageAttribute.1.Name", "Foo", "MessageAttribute.1.Value.DataType", "String", "MessageAttribute.1.Value.StringValue", "Bar")
	text := ask(200, []string{
		"<ReceiveMessageResult><Message>", "<Body>&lt;a&amp;b&gt;</Body>", "<Attribute><Name>ApproximateReceiveCount</Name><Value>1</Value></Attribute>",
		"<MessageAttribute><Name>Foo</Name><Value><DataType>String</DataType><StringValue>Bar</StringValue></Value></MessageAttribute>",
	}, at, "Action", "ReceiveMessage", "MaxNumberOfMessages", "10", "AttributeName.1", "All", "MessageAttributeName.1", "All", "WaitTimeSeconds", "1")
	_, rest, _ := strings.Cut(text, "<ReceiptHandle>")
	handle, _, _ := strings.Cut(rest, "<")
	ask(200, []string{"<DeleteMessageBatchResultEntry><Id>a</Id></DeleteMessageBatchResultEntry>", "<BatchResultErrorEntry><Code>ReceiptHandleIsInvalid</Code><Id>b</Id>", "<SenderFault>true</SenderFault>"}, at,
		"Action", "DeleteMessageBatch", "DeleteMessageBatchRequestEntry.1.Id", "a", "DeleteMessageBatchRequestEntry.1.ReceiptHandle", handle,
		"DeleteMessageBatchRequestEntry.2.Id", "b", "DeleteMessageBatchRequestEntry.2.ReceiptHandle", "garbage")
	ask(200, []string{"<SendMessageBatchResultEntry><Id>x</Id>"}, at,
		"Action", "SendMessageBatch", "SendMessageBatchRequestEntry.1.Id", "x", "SendMessageBatchRequestEntry.1.MessageBody", "b", "SendMessageBatchRequestEntry.1.DelaySeconds", "5")
	ask(200, nil, at, "Action", "PurgeQueue")
	ask(403, []string{"<Code>AWS.SimpleQueueService.PurgeQueueInProgress</Code>"}, at, "Action", "PurgeQueue")
	ask(400, []string{"<ErrorResponse ", "<Type>Sender</Type><Code>AWS.SimpleQueueService.NonExistentQueue</Code><Message>"}, "/000000000000/gone", "Action", "ReceiveMessage")
	ask(400, []string{"<Code>UnknownOperationException</Code>"}, "/", "Action", "Nonsense")
	ask(400, []string{"<Code>SerializationException</Code>"}, at, "Action", "ReceiveMessage", "WaitTimeSeconds", "x")
	ask(501, []string{"<Code>NotImplemented</Code>"}, at, "Action", "ReceiveMessage", "Nonsense", "x")
	ask(501, []string{"<Code>NotImplemented</Code>"}, at, "Action", "AddPermission")
}
