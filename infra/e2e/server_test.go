package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// home is the region of the test.
const home = "us-east-1"

// operator is the access key of whoever deploys and operates. ministack takes it for
// the account's root, which no policy holds back.
const operator = "test"

// account is the account of a key that is not an account's number itself.
const account = "000000000000"

// server is a ministack process, with the functions as its children.
type server struct {
	url string
	log string
	cmd *exec.Cmd
	end chan struct{} // closed when it has ended
}

// startServer starts ministack on the port, with the objects that lie in the folder.
func startServer(ctx context.Context, t *testing.T, venv, dir string, port int, endpoint string) *server {
	t.Helper()
	s := &server{url: fmt.Sprintf("http://127.0.0.1:%d", port), log: filepath.Join(dir, "ministack.log"), end: make(chan struct{})}
	for _, folder := range []string{"home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	out, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the process has its own
	s.cmd = exec.Command(filepath.Join(venv, "bin", "ministack"))
	s.cmd.Stdout, s.cmd.Stderr = out, out
	s.cmd.Dir = dir
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the functions end with it
	s.cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + filepath.Join(dir, "tmp"),
		"BIND_HOST=127.0.0.1", fmt.Sprintf("GATEWAY_PORT=%d", port), "MINISTACK_REGION=" + home,
		// The functions inherit these two, and find the front.
		"AWS_ENDPOINT_URL=" + endpoint, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ACCESS_KEY_ID=" + operator, "AWS_SECRET_ACCESS_KEY=" + operator,
		"AUTH=true", // IAM is evaluated
		"S3_PERSIST=1", "S3_DATA_DIR=" + filepath.Join(dir, "s3"),
		"LAMBDA_ASYNC_RETRY_BASE_SECONDS=0.2", // AWS waits minutes between the tries of an asynchronous call
		"IOT_MTLS_ENABLED=0", "SFTP_ENABLED=0",
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("ministack does not start: %v", err)
	}
	go func() {
		_ = s.cmd.Wait() // how it ended is in its log
		close(s.end)
	}()
	t.Cleanup(func() { s.stop(t) })
	until(ctx, t, "ministack answers", 30*time.Second, 100*time.Millisecond, func() (bool, error) {
		select {
		case <-s.end:
			return false, fmt.Errorf("it has ended")
		default:
		}
		return healthy(ctx, s.url), nil
	})
	return s
}

func healthy(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/_ministack/health", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// stop ends the process, and then whatever of its functions is left.
func (s *server) stop(t *testing.T) {
	if t.Failed() {
		t.Logf("the end of %s:\n%s", s.log, tail(s.log, 120))
	}
	group := -s.cmd.Process.Pid
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.end:
	case <-time.After(10 * time.Second):
		t.Log("ministack does not end by itself")
	}
	_ = syscall.Kill(group, syscall.SIGKILL) // nobody is left in a group that has ended
	<-s.end
}

// tail is the end of a file, without the metrics that the functions print.
func tail(name string, lines int) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	var kept []string
	for line := range strings.Lines(string(data)) {
		if !strings.Contains(line, `"CloudWatchMetrics"`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-lines):], "")
}

// freePort is a port of loopback that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // it was only asked for a number
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("no TCP address")
	}
	return address.Port
}

// until looks again and again, for at most limit, until what it waits for is there. An
// error ends it. It is the only place that sleeps.
func until(ctx context.Context, t *testing.T, what string, limit, every time.Duration, look func() (bool, error)) {
	t.Helper()
	start := time.Now()
	for {
		done, err := look()
		switch {
		case err != nil:
			t.Fatalf("waiting until %s: %v", what, err)
		case done:
			t.Logf("%s, after %s", what, time.Since(start).Round(time.Second/10))
			return
		case time.Since(start) > limit:
			t.Fatalf("after %s it is still not so that %s", limit, what)
		case ctx.Err() != nil:
			t.Fatalf("waiting until %s: %v", what, context.Cause(ctx))
		}
		time.Sleep(every)
	}
}

// command runs a program in a folder and returns what it prints. What the program has
// started ends with it.
func command(ctx context.Context, dir string, env []string, name string, args ...string) (out, diagnostics string, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir, cmd.Env = dir, env
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // nobody may be left
	}
	return stdout.String(), stderr.String(), err
}
