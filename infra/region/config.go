package region

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/policy"
)

// Config is what one region's stack is declared from. Configs makes it from the CDK's
// context and refuses what is wrong with it.
type Config struct {
	Region, Stage string
	// Regions are all of the deployment, in order: the dashboard shows them side by side.
	Regions []string
	// Policies are the region's own, by name in order, and PolicyFolder is where their
	// files are.
	Policies     []policy.Policy
	PolicyFolder string
	Settings     contract.Settings
	// Packages is the folder of the built functions: <function>/bootstrap. Architecture
	// is the machine that they are built for.
	Packages     string
	Architecture Architecture
	// CodeVersion names the code in evidence and events. "" is the digest of the packages.
	CodeVersion string

	// Visibility is for how long a delivered message is hidden. BatchSize is how many
	// messages one invocation takes at most, and BatchWindow how long the poller waits
	// for them.
	Visibility  time.Duration
	BatchSize   int
	BatchWindow time.Duration

	// EvidenceYears is how long evidence is kept (R142).
	EvidenceYears int
	// ObjectLock is the mode in which new evidence is locked for ObjectLockDays: "" is
	// without, and can not be changed to another later.
	ObjectLock     ObjectLock
	ObjectLockDays int
	// LogDays is how long the functions' logs are kept.
	LogDays int
	// DeadLetterBaseline is how many dead letters of one reason in 15 minutes are usual (R113).
	DeadLetterBaseline int

	// PageTo and TicketTo are whom the alarms of each topic reach.
	PageTo, TicketTo Subscribers

	// CustomerKey asks for a KMS key of the stack's own for everything that it keeps.
	CustomerKey bool
	// PermissionsBoundary is the ARN or the name of a policy that bounds every role, and
	// CodeSigning the ARN of a code signing configuration of every function; "" is without.
	PermissionsBoundary, CodeSigning string
	// TerminationProtection refuses to delete the stack. make destroy takes it away first.
	TerminationProtection bool
	// Emulator says that the stack is for a local emulator: what that can not deploy is
	// left out, and Scale divides every duration.
	Emulator bool
	Scale    int
}

// Subscribers are the subscriptions of a topic.
type Subscribers struct {
	Emails []string
	URLs   []string // HTTPS endpoints, such as an incident tool's
}

// The modes of a policy, as its file and a worker's environment name them.
const (
	enforce    = "enforce"
	reportOnly = "report-only"
)

// Unheard reports whether nobody would be woken by an alarm of a deployment that counts.
func (c Config) Unheard() bool {
	return !c.Emulator && len(c.PageTo.Emails)+len(c.PageTo.URLs) == 0
}

// Architecture is a machine that Lambda offers.
type Architecture string

// The architectures, as Lambda names them.
const (
	ARM64  Architecture = "arm64"
	X86_64 Architecture = "x86_64" //nolint:staticcheck // a machine is called as it is called
)

// ObjectLock is a mode of S3's Object Lock.
type ObjectLock string

// The modes. Governance can be lifted by whoever has s3:BypassGovernanceRetention,
// compliance by nobody.
const (
	NotLocked  ObjectLock = ""
	Governance ObjectLock = "governance"
	Compliance ObjectLock = "compliance"
)

const (
	// maxRetention is the longest that SQS keeps a message:
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
	maxRetention = 14 * 24 * time.Hour
	// maxBatch is the largest batch of a standard queue, and maxBatchAtOnce the largest
	// without a window:
	// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
	maxBatch       = 10_000
	maxBatchAtOnce = 10
	daysOfYear     = 365
	// maxPolicies is how many policies of one region a stack takes. It could have 500
	// resources, and a policy has four, but beyond some 70 the CDK makes policies of roles
	// that are longer than IAM's 6,144 characters:
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
	maxPolicies = 50
	// maxEvidenceYears is how long the longest policy keeps an artifact. The shortest, a
	// year, is longer than SQS keeps a dead letter.
	maxEvidenceYears = policy.MaxRetentionDays / daysOfYear
	// localScale is the one scale at which the relations between the numbers are proven,
	// besides 1.
	localScale = 20
)

// logDays are the retentions that CloudWatch Logs offers, from two weeks on, which is
// how long a dead letter lives:
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
var logDays = map[int]awslogs.RetentionDays{
	14:   awslogs.RetentionDays_TWO_WEEKS,
	30:   awslogs.RetentionDays_ONE_MONTH,
	60:   awslogs.RetentionDays_TWO_MONTHS,
	90:   awslogs.RetentionDays_THREE_MONTHS,
	120:  awslogs.RetentionDays_FOUR_MONTHS,
	150:  awslogs.RetentionDays_FIVE_MONTHS,
	180:  awslogs.RetentionDays_SIX_MONTHS,
	365:  awslogs.RetentionDays_ONE_YEAR,
	400:  awslogs.RetentionDays_THIRTEEN_MONTHS,
	545:  awslogs.RetentionDays_EIGHTEEN_MONTHS,
	731:  awslogs.RetentionDays_TWO_YEARS,
	1096: awslogs.RetentionDays_THREE_YEARS,
	1827: awslogs.RetentionDays_FIVE_YEARS,
	2192: awslogs.RetentionDays_SIX_YEARS,
	2557: awslogs.RetentionDays_SEVEN_YEARS,
	2922: awslogs.RetentionDays_EIGHT_YEARS,
	3288: awslogs.RetentionDays_NINE_YEARS,
	3653: awslogs.RetentionDays_TEN_YEARS,
}

// problems are what is wrong with the configuration, all of it. What is refused here
// would deploy, or fail half-way, and then lose messages or evidence.
func (c Config) problems() (problems []error) {
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	settings := c.Settings.Validate()
	refuse(settings != nil, "concurrency is %d and scale %d: %w", c.Settings.Concurrency, c.Scale, settings)
	least := c.Settings.Visibility() + c.BatchWindow
	most := c.Settings.Overdue() // then reconcile sends a page again, hidden or not
	refuse(c.Visibility < least || c.Visibility > most,
		"visibility is %s; it must be %d function timeouts of %s and the batch window of %s, %s, up to %s", c.Visibility, c.Settings.Visibility()/c.Settings.FunctionTimeout, c.Settings.FunctionTimeout, c.BatchWindow, least, most)
	refuse(c.BatchSize < 1 || c.BatchSize > maxBatch, "batch_size is %d; it is 1 to %d", c.BatchSize, maxBatch)
	refuse(c.BatchSize > maxBatchAtOnce && c.BatchWindow < time.Second, "batch_size is %d; above %d it needs a batch_window of a second or more", c.BatchSize, maxBatchAtOnce)
	refuse(len(c.Policies) > maxPolicies, "%d policies are for region %s; a stack has room for %d", len(c.Policies), c.Region, maxPolicies)
	refuse(c.BatchWindow < 0 || c.BatchWindow > 5*time.Minute, "batch_window is %s; it is 0 to 5m", c.BatchWindow)
	refuse(c.Settings.DeadLetterRetention > maxRetention, "dead letters would be kept for %s; SQS keeps a message for at most %s", c.Settings.DeadLetterRetention, maxRetention)
	_, offered := logDays[c.LogDays]
	refuse(!offered || days(c.LogDays) < c.Settings.DeadLetterRetention,
		"log_days is %d; it is one of %v, and not below the %s of a dead letter, or a redrive could not be explained", c.LogDays, slices.Sorted(maps.Keys(logDays)), c.Settings.DeadLetterRetention)
	refuse(c.Architecture != ARM64 && c.Architecture != X86_64, "architecture is %q; it is arm64 or x86_64", c.Architecture)
	refuse(c.DeadLetterBaseline < 1, "dead_letter_baseline is %d; it is at least 1", c.DeadLetterBaseline)
	refuse(c.Scale != 1 && (c.Scale != localScale || !c.Emulator), "scale is %d; it is 1, and with emulator it can be %d", c.Scale, localScale)
	return append(problems, c.evidenceProblems()...)
}

// evidenceProblems holds the evidence's life to that of what it is evidence of (R142).
func (c Config) evidenceProblems() (problems []error) {
	kept := c.EvidenceYears * daysOfYear
	if c.EvidenceYears < 1 || c.EvidenceYears > maxEvidenceYears {
		return []error{fmt.Errorf("evidence_years is %d; it is 1 to %d", c.EvidenceYears, maxEvidenceYears)}
	}
	for _, p := range c.Policies {
		if kept < p.RetentionDays {
			problems = append(problems, fmt.Errorf("evidence_years is %d; policy %s keeps artifacts for %d days, and evidence must last as long", c.EvidenceYears, p.Name, p.RetentionDays))
		}
	}
	switch c.ObjectLock {
	case NotLocked:
		if c.ObjectLockDays != 0 {
			problems = append(problems, fmt.Errorf("object_lock_days is %d without object_lock, which is governance or compliance", c.ObjectLockDays))
		}
	case Governance, Compliance:
		if c.ObjectLockDays < 1 || c.ObjectLockDays > kept {
			problems = append(problems, fmt.Errorf("object_lock_days is %d; it is 1 to evidence_years, %d days", c.ObjectLockDays, kept))
		}
	default:
		problems = append(problems, fmt.Errorf("object_lock is %q; it is governance, compliance or left out", c.ObjectLock))
	}
	return problems
}

// enforcing are the policies that delete.
func (c Config) enforcing() []policy.Policy {
	return slices.DeleteFunc(slices.Clone(c.Policies), func(of policy.Policy) bool { return of.Mode != enforce })
}

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// name is the physical name of what must have one.
func (c Config) name(of string) string { return contract.StackName(c.Stage) + "-" + of }
