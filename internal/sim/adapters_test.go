package sim

import (
	"context"
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/emulator"
	emulateddb "github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/sdk"
)

var through = flag.Uint64("adapters", 20, "how many seeds are played through the product's clients and the embedded AWS")

// clients are the product's, of one player. They outlive its worlds, for they remember
// nothing.
type clients struct {
	carrier  *carrier
	config   sdk.Config
	ledger   *ledgers
	evidence *evidence.S3
	mail     map[job.Mode]mail
}

const (
	tableName    = "ledger"
	evidenceName = "evidence"
	endpoint     = "http://aws.invalid"
)

func newClients() *clients {
	c := &clients{carrier: &carrier{}, mail: map[job.Mode]mail{}}
	limits := sdk.Defaults()
	limits.Backoff = 1 // a nanosecond
	where := endpoint
	c.config = limits.Configure(aws.Config{
		Region: region, BaseEndpoint: &where, Credentials: aws.AnonymousCredentials{},
	})
	c.config.HTTPClient = c.carrier
	table := ledger.NewTable(c.config, tableName)
	table.Pause = func(context.Context, time.Duration) error { return nil }
	c.ledger = &ledgers{table, table, table, table, table, table, table, table, table, table, table, table}
	c.evidence = evidence.NewS3(c.config, evidenceName)
	queueURL := func(name string) string { return endpoint + "/" + wire.Account + "/" + name }
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		q := queue.NewSQS(c.config, queue.URLs{Enforce: queueURL("enforce"), ReportOnly: queueURL("report"), Letters: queueURL("letters")})
		q.Worker = mode
		c.mail[mode] = mail{q, q}
	}
	return c
}

// open builds an embedded AWS for a world, and puts the clients in front of it.
func (c *clients) open(w *world) *adapters {
	clock := ticking{w}
	store, messages := s3.New(clock), sqs.New(clock)
	c.carrier.w, c.carrier.taken, c.carrier.short = w, map[string]bool{}, w.chance.n(4)
	c.carrier.aws = emulator.New(clock, func(wire.Call) wire.Fate { return c.carrier.fate }, store, messages, emulateddb.New(clock))
	store.OnEffect = func(bucket string, e s3.Effect) {
		if w.landing == nil && !e.Lifted {
			w.violate("A2", "something was destroyed that no delete names")
		}
		w.effect(effectOf(bucket, e))
	}
	c.carrier.kept = func(q *request) bool {
		_, there := store.Find(evidenceName, strings.TrimPrefix(q.URL.Path, "/"+evidenceName+"/"), "")
		return there
	}
	// It remembers for a while what it saw of a bucket, so each world has its own.
	wares := artifact.NewS3(c.config, artifact.S3Options{Now: func() time.Time { return c.carrier.by.Now() }})
	ctx := context.Background()
	_, err := dynamodb.NewFromConfig(c.config.Config).CreateTable(ctx, ledger.Schema(tableName))
	sure(err)
	sure(store.Create(evidenceName, region, true))
	return &adapters{
		ledger: c.ledger, evidence: c.evidence, differ: differ,
		mail: func(i *instance) mail {
			if i.function == string(job.ReportOnly) {
				return c.mail[job.ReportOnly]
			}
			return c.mail[job.Enforce]
		},
		artifacts: func(i *instance) artifacts {
			c.carrier.by = i
			return wares
		},
		queue: c.queues(ctx, w, messages), store: buckets{shop{store}, shop{store}},
	}
}

// queues makes the queues as the stack does.
func (c *clients) queues(ctx context.Context, w *world, s *sqs.Service) queues {
	client := awssqs.NewFromConfig(c.config.Config)
	whole := func(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
	create := func(name string, retention time.Duration, redrive string) *sqs.Queue {
		attributes := map[string]string{"VisibilityTimeout": whole(w.settings.Visibility()), "MessageRetentionPeriod": whole(retention)}
		if redrive != "" {
			attributes["RedrivePolicy"] = redrive
		}
		_, err := client.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		sure(err)
		q, err := s.Queue(region, name)
		sure(err)
		return q
	}
	letters := create("letters", w.settings.DeadLetterRetention, "")
	policy := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, letters.ARN(), w.settings.MaxReceives)
	l := &lines{letters: letters, pages: map[job.Mode]*sqs.Queue{
		job.Enforce: create("enforce", w.settings.SourceRetention, policy), job.ReportOnly: create("report", w.settings.SourceRetention, policy),
	}}
	return queues{l, l, l}
}

// TestAdapters plays worlds through the product's clients, the SDK and the embedded AWS.
// The faults happen to their requests.
func TestAdapters(t *testing.T) {
	if *seed != 0 {
		p, c := NewPlayer(), newClients()
		defer p.Close()
		if r := p.Play(*seed, Options{Trace: os.Stdout, adapters: c.open}); r.Violation != nil {
			t.Errorf("%s at %s: %s", r.Violation.Oracle, r.Violation.At, r.Violation.Text)
		}
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	began, used := time.Now(), cpu()
	s := playAll(*first, *through, func() Options { return Options{adapters: newClients().open} })
	took, used := time.Since(began), cpu()-used
	s.report(t, took, used, func(f Fault) bool { return s.worlds >= 500 && usual[f] > 0 })
}

// One fault at each call of the small scenario, for each kind of bucket: what needs no
// luck is found without it here too.
func TestExhaustThroughAdapters(t *testing.T) {
	exhaust(t, Search{Depth: 1, Calls: *positions}, func() Options { return Options{adapters: newClients().open} })
}

// L5 here too: what the services draw for themselves must not matter.
func TestSameSeedThroughAdapters(t *testing.T) {
	a, b := NewPlayer(), NewPlayer()
	defer a.Close()
	defer b.Close()
	one, two := newClients(), newClients()
	for seed := *first; seed < *first+5; seed++ {
		r := a.Play(seed, Options{adapters: one.open})
		b.Play(seed+1000, Options{adapters: two.open})
		if again := b.Play(seed, Options{adapters: two.open}); r.Hash != again.Hash {
			t.Errorf("seed %d: %x and %x", seed, r.Hash, again.Hash)
		}
	}
}

// The oracles see through the clients too: some mutants that the first worlds find.
func TestMutantsThroughAdapters(t *testing.T) {
	found := map[string]bool{
		"holds-ignored": false, "partial-errors-swallowed": false, "evidence-altered": false, "all-acknowledged": false,
		"other-bucket": false, "plan-not-kept": false,
	}
	p, c := NewPlayer(), newClients()
	defer p.Close()
	for _, k := range append(workerMutants(), otherMutants()...) {
		if _, chosen := found[k.Name]; !chosen {
			continue
		}
		for seed := uint64(1); seed <= 20 && !found[k.Name]; seed++ {
			v := p.Play(seed, Options{Mutant: &k.Mutant, adapters: c.open}).Violation
			if found[k.Name] = v != nil && v.Oracle != "A1"; v != nil {
				t.Logf("%s: seed %d, %s", k.Name, seed, v.Oracle)
			}
		}
	}
	for name, was := range found {
		if !was {
			t.Errorf("%s is not found", name)
		}
	}
}

var instant = reflect.TypeFor[time.Time]()

// differ says where two answers differ, "" for nowhere. Times are instants, and an absent
// list is an empty one.
func differ(client, fake any) string {
	return differences("", reflect.ValueOf(client), reflect.ValueOf(fake))
}

func differences(path string, a, b reflect.Value) string {
	switch a.Kind() {
	case reflect.Struct:
		if a.Type() == instant {
			x, _ := reflect.TypeAssert[time.Time](a)
			y, _ := reflect.TypeAssert[time.Time](b)
			if x.Equal(y) {
				return ""
			}
			break
		}
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				if text := differences(path+"."+f.Name, a.Field(i), b.Field(i)); text != "" {
					return text
				}
			}
		}
		return ""
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s: %d and %d", path, a.Len(), b.Len())
		}
		for i := range a.Len() {
			if text := differences(path+"[]", a.Index(i), b.Index(i)); text != "" {
				return text
			}
		}
		return ""
	case reflect.Map, reflect.Pointer, reflect.Interface:
		if reflect.DeepEqual(a.Interface(), b.Interface()) {
			return ""
		}
	default:
		if a.Equal(b) {
			return ""
		}
	}
	return fmt.Sprintf("%s: %v and %v", path, a, b)
}
