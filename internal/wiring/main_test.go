package wiring_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// asCloud is the variable that makes this test binary an embedded AWS and nothing
// else.
const asCloud = "EXPUNGE_TEST_CLOUD"

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(asCloud) != "" {
		if err := serveCloud(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveCloud says where it listens and serves until in ends.
func serveCloud(in io.Reader, out io.Writer) error {
	store := s3.New(wire.Wall{})
	aws := emulator.New(wire.Wall{}, nil, store, dynamodb.New(wire.Wall{}), sqs.New(wire.Wall{}))
	listener, err := emulator.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", aws)
	// No API of S3 can upload an object that is old already.
	mux.HandleFunc("POST /seed/{tenant}/{count}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("count"))
		if err == nil {
			err = store.Seed(bucket, expired(r.PathValue("tenant"), n))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	go func() { _ = http.Serve(listener, mux) }() // it ends with the process
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// elsewhere is an embedded AWS in a process of its own, so that what it allocates
// is nobody else's.
type elsewhere struct{ url string }

func startElsewhere(b *testing.B) elsewhere {
	b.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), asCloud+"=1")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	must(b, err)
	out, err := c.StdoutPipe()
	must(b, err)
	must(b, c.Start())
	b.Cleanup(func() {
		_ = in.Close() // which ends it
		_ = c.Wait()   // it has nothing left to say
	})
	line := make([]byte, 128)
	n, err := out.Read(line)
	must(b, err)
	return elsewhere{strings.TrimSpace(string(line[:n]))}
}

// seed puts n expired objects of a tenant.
func (e elsewhere) seed(b *testing.B, tenant string, n int) {
	b.Helper()
	answer, err := http.Post(e.url+"/seed/"+tenant+"/"+strconv.Itoa(n), "", nil)
	must(b, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		b.Fatal(answer.Status)
	}
}
