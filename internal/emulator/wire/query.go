package wire

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The query protocol is a form in and XML out: what AWS's services spoke before
// JSON, and what some of them still do.

// Action returns the operation that a request of the query protocol names in its
// form, "" when it names none.
func Action(r *http.Request) string { return r.PostFormValue("Action") }

// Form returns the parameters of a request of the query protocol. One that is not
// among known might change the result on AWS, so it is refused rather than ignored.
func Form(r *Request, known ...string) (url.Values, *Error) {
	form, err := url.ParseQuery(string(r.Body))
	if err != nil {
		return nil, Bad("MalformedQueryString", "The query string is malformed.")
	}
	for name := range form {
		if name != "Action" && name != "Version" && !slices.Contains(known, name) {
			return nil, Unsupported("the parameter " + name + " of " + r.Operation)
		}
	}
	return form, nil
}

// WriteQuery answers in the query protocol: with the XML of the operation's result,
// which may be "", or with the error.
func WriteQuery(w http.ResponseWriter, r *Request, namespace, result string, err *Error) {
	w.Header().Set("Content-Type", "text/xml")
	root, id := r.Operation+"Response", Element("RequestId", r.ID)
	content := "<ResponseMetadata>" + id + "</ResponseMetadata>"
	switch {
	case err != nil:
		kind := "Sender"
		if err.Status >= http.StatusInternalServerError {
			kind = "Receiver"
		}
		w.WriteHeader(err.Status)
		root, content = "ErrorResponse", "<Error>"+Element("Type", kind)+Element("Code", err.Code)+Element("Message", err.Message)+"</Error>"+id
	case result != "":
		content = "<" + r.Operation + "Result>" + result + "</" + r.Operation + "Result>" + content
	}
	_, _ = io.WriteString(w, `<?xml version="1.0"?><`+root+` xmlns="`+namespace+`">`+content+"</"+root+">") // a client that has gone can not be told
}

// Text returns the text as XML has it.
func Text(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes everything
	return b.String()
}

// Element returns <name>text</name>.
func Element(name, text string) string { return "<" + name + ">" + Text(text) + "</" + name + ">" }
