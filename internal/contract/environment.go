package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Environment is what the stack tells a function: names that only a deployment
// knows. The stack renders it and the function parses it, so neither can misspell
// what the other reads.
type Environment struct {
	Table          string // DynamoDB table of the ledger
	PagesQueue     string // URL of the queue of pages to enforce
	ReportQueue    string // URL of the queue of pages to report on
	LettersQueue   string // URL of the dead-letter queue
	EvidenceBucket string // S3 bucket of plans and receipts
	Mode           string // which queue a worker reads: enforce or report-only
	Policies       string // folder of policy files in the function's package
	EnqueueName    string // function that resumes scans
	RedriveName    string // function that goes on with redrives
	CodeVersion    string // version of the code, for evidence and events
	Concurrency    string // the region's maximum number of concurrent workers; "" is the default
	Stage          string // name of the deployment, which is in the namespace of its metrics
	Scale          string // divisor of every duration; "" or 1 in a deployed region
}

// variable ties a field to its name in the environment.
type variable struct {
	name  string
	field func(*Environment) *string
}

func variables() []variable {
	return []variable{
		{"EXPUNGE_LEDGER_TABLE", func(e *Environment) *string { return &e.Table }},
		{"EXPUNGE_PAGES_QUEUE_URL", func(e *Environment) *string { return &e.PagesQueue }},
		{"EXPUNGE_REPORT_QUEUE_URL", func(e *Environment) *string { return &e.ReportQueue }},
		{"EXPUNGE_DEAD_LETTERS_URL", func(e *Environment) *string { return &e.LettersQueue }},
		{"EXPUNGE_EVIDENCE_BUCKET", func(e *Environment) *string { return &e.EvidenceBucket }},
		{"EXPUNGE_MODE", func(e *Environment) *string { return &e.Mode }},
		{"EXPUNGE_POLICIES", func(e *Environment) *string { return &e.Policies }},
		{"EXPUNGE_ENQUEUE_FUNCTION", func(e *Environment) *string { return &e.EnqueueName }},
		{"EXPUNGE_REDRIVE_FUNCTION", func(e *Environment) *string { return &e.RedriveName }},
		{"EXPUNGE_CODE_VERSION", func(e *Environment) *string { return &e.CodeVersion }},
		{"EXPUNGE_CONCURRENCY", func(e *Environment) *string { return &e.Concurrency }},
		{"EXPUNGE_STAGE", func(e *Environment) *string { return &e.Stage }},
		{"EXPUNGE_SCALE", func(e *Environment) *string { return &e.Scale }},
	}
}

// Render returns the variables of the fields that are set, by name.
func (e Environment) Render() map[string]string {
	vars := map[string]string{}
	for _, v := range variables() {
		if value := *v.field(&e); value != "" {
			vars[v.name] = value
		}
	}
	return vars
}

// ParseEnvironment reads the variables through lookup, which is os.Getenv in a
// function. Each field that need points at must be set; the error names every
// variable that is not.
func ParseEnvironment(lookup func(string) string, need func(*Environment) []*string) (Environment, error) {
	var e Environment
	for _, v := range variables() {
		*v.field(&e) = lookup(v.name)
	}
	required := need(&e)
	var missing []string
	for _, v := range variables() {
		if f := v.field(&e); *f == "" && slices.Contains(required, f) {
			missing = append(missing, v.name)
		}
	}
	if len(missing) > 0 {
		return e, fmt.Errorf("contract: the environment lacks %s", strings.Join(missing, ", "))
	}
	return e, nil
}

// Settings returns the numbers of the deployment: production's, at its scale and with
// its concurrency.
func (e Environment) Settings() (Settings, error) {
	s := Production()
	switch e.Scale {
	case "", "1":
	case "20":
		s = s.Scaled(20)
	default:
		return s, fmt.Errorf("contract: EXPUNGE_SCALE is %q; 1 is a deployed region and 20 the local environment", e.Scale)
	}
	if e.Concurrency != "" {
		n, err := strconv.Atoi(e.Concurrency)
		if err != nil {
			return s, fmt.Errorf("contract: EXPUNGE_CONCURRENCY is %q; it is a number of workers from 2 to %d", e.Concurrency, MaxConcurrency)
		}
		s.Concurrency = n
	}
	return s, s.Validate()
}
