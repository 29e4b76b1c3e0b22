package s3

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

func failed(status int, code, message string) *wire.Error {
	return &wire.Error{Status: status, Code: code, Message: message}
}

func noSuchBucket() *wire.Error {
	return failed(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
}

func noSuchKey() *wire.Error {
	return failed(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
}

func noSuchVersion() *wire.Error {
	return failed(http.StatusNotFound, "NoSuchVersion", "The specified version does not exist.")
}

func preconditionFailed() *wire.Error {
	return failed(http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
}

func malformedXML() *wire.Error {
	return wire.Bad("MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema")
}

func accessDenied(message string) *wire.Error {
	return failed(http.StatusForbidden, "AccessDenied", message)
}

func methodNotAllowed() *wire.Error {
	return failed(http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed against this resource.")
}

// fail answers with an error. One to a HEAD request, and one that says that
// nothing changed, has no body: clients go by the status alone.
func (c *call) fail(err *wire.Error) {
	c.w.Header().Set("Content-Type", "application/xml")
	c.w.WriteHeader(err.Status)
	if c.Method == http.MethodHead || err.Status == http.StatusNotModified {
		return
	}
	_, _ = fmt.Fprintf(c.w, "%s<Error><Code>%s</Code><Message>%s</Message><Resource>%s</Resource><RequestId>%s</RequestId></Error>",
		xml.Header, legible(err.Code), legible(err.Message), legible(c.URL.Path), c.id) // a client that has gone can not be told
}

// document is an XML answer that is being written.
type document struct {
	strings.Builder
	// encode writes a key: as XML text, or in the form of EncodingType=url.
	encode func(string) string
}

// element writes <name>text</name>; the text stands as it is.
func (d *document) element(name, text string) {
	d.WriteString("<" + name + ">" + text + "</" + name + ">")
}

// optional writes an element unless its text is empty.
func (d *document) optional(name, text string) {
	if text != "" {
		d.element(name, text)
	}
}

// reply answers with a document whose root element is name.
func (c *call) reply(name string, d *document) *wire.Error {
	c.w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(c.w, xml.Header+"<"+name+` xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`+d.String()+"</"+name+">") // a client that has gone can not be told
	return nil
}

// legible writes text for people: what XML can not carry is replaced.
func legible(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}

// exact writes a key as XML text. A character that XML 1.0 forbids becomes a
// reference that parsers refuse, as in S3: a client that reads on would take the
// key for another one. EncodingType=url is the way to read such keys.
func exact(s string) string {
	if strings.IndexFunc(s, unusual) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !unusual(r):
			b.WriteRune(r)
		case r == utf8.RuneError: // also an invalid byte, which stays one
			_, n := utf8.DecodeRuneInString(s[i:])
			b.WriteString(s[i : i+n])
		default:
			fmt.Fprintf(&b, "&#x%X;", r)
		}
	}
	return b.String()
}

func unusual(r rune) bool {
	return r < ' ' || strings.ContainsRune(`<>&'"`, r) || r == utf8.RuneError || r == '\ufffe' || r == '\uffff'
}

// encoded writes a key as EncodingType=url does: as in a form, but with slashes.
func encoded(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "%2F", "/") }

// encoding returns a document that writes keys as the call asks for.
func (c *call) encoding() (*document, *wire.Error) {
	switch c.query.Get("encoding-type") {
	case "":
		return &document{encode: exact}, nil
	case "url":
		return &document{encode: encoded}, nil
	default:
		return nil, wire.Bad("InvalidArgument", "Invalid Encoding Method specified in Request")
	}
}

// instant writes a time as XML answers have it.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// decode reads an XML payload into v.
func (c *call) decode(v any) *wire.Error {
	if xml.Unmarshal(c.body, v) != nil {
		return malformedXML()
	}
	return nil
}
