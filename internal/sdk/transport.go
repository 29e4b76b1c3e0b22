package sdk

import (
	"io"
	"net/http"
)

// Repair returns a transport that does not let net/http see that a request's body
// can write itself.
//
// The SDK (smithy-go v1.22.3 to v1.28.9, checked) closes the body as soon as the
// first bytes of the answer are there. Its body then answers WriteTo with io.EOF,
// which net/http, should it not be done with the body yet, takes for a failed
// upload: it closes the connection while the answer is still being read. The call
// fails after its effect, with "use of closed network connection", and with it
// the reuse of the connection. TestTheFault shows it. Read does not have the
// fault, so the body is handed over with nothing but Read and Close.
func Repair(next http.RoundTripper) http.RoundTripper { return repaired{next} }

type repaired struct{ next http.RoundTripper }

func (t repaired) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r = r.WithContext(r.Context()) // a shallow copy: a transport may not change its request
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return t.next.RoundTrip(r)
}

// CloseIdleConnections is what http.Client asks of its transport.
func (t repaired) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
