package contract

import "strings"

// Outputs is what a deployment tells an operator's tool: the stack's outputs, or
// what the local environment writes down. The stack renders it and the tool reads it.
type Outputs struct {
	Region, Stage string
	Table         string // DynamoDB table of the ledger
	PagesQueue    string // URLs of the queues
	ReportQueue   string
	LettersQueue  string
	Evidence      string // S3 bucket of plans, receipts and manifests
	Enqueue       string // names of the functions
	Worker        string
	ReportWorker  string
	Redrive       string
	Reconcile     string
	Hold          string
	Schedules     string // EventBridge Scheduler's group of the policies' schedules
	PageTopic     string // ARNs of the topics, "" where there are none
	TicketTopic   string
	CodeVersion   string
	Concurrency   string // the region's maximum number of concurrent workers; "" is the default
	Scale         string // divisor of every duration; "" or 1 in a deployed region
}

// output ties a field to its name among the stack's outputs.
type output struct {
	name     string
	field    func(*Outputs) *string
	optional bool
}

func outputs() []output {
	return []output{
		{"Region", func(o *Outputs) *string { return &o.Region }, false},
		{"Stage", func(o *Outputs) *string { return &o.Stage }, false},
		{"LedgerTable", func(o *Outputs) *string { return &o.Table }, false},
		{"PagesQueueUrl", func(o *Outputs) *string { return &o.PagesQueue }, false},
		{"ReportQueueUrl", func(o *Outputs) *string { return &o.ReportQueue }, false},
		{"DeadLettersUrl", func(o *Outputs) *string { return &o.LettersQueue }, false},
		{"EvidenceBucket", func(o *Outputs) *string { return &o.Evidence }, false},
		{"EnqueueFunction", func(o *Outputs) *string { return &o.Enqueue }, false},
		{"WorkerFunction", func(o *Outputs) *string { return &o.Worker }, false},
		{"ReportWorkerFunction", func(o *Outputs) *string { return &o.ReportWorker }, false},
		{"RedriveFunction", func(o *Outputs) *string { return &o.Redrive }, false},
		{"ReconcileFunction", func(o *Outputs) *string { return &o.Reconcile }, false},
		{"HoldFunction", func(o *Outputs) *string { return &o.Hold }, false},
		{"ScheduleGroup", func(o *Outputs) *string { return &o.Schedules }, false},
		{"PageTopic", func(o *Outputs) *string { return &o.PageTopic }, true},
		{"TicketTopic", func(o *Outputs) *string { return &o.TicketTopic }, true},
		{"CodeVersion", func(o *Outputs) *string { return &o.CodeVersion }, false},
		{"Concurrency", func(o *Outputs) *string { return &o.Concurrency }, true},
		{"Scale", func(o *Outputs) *string { return &o.Scale }, true},
	}
}

// Render returns the outputs that are set, by name.
func (o Outputs) Render() map[string]string {
	values := map[string]string{}
	for _, out := range outputs() {
		if value := *out.field(&o); value != "" {
			values[out.name] = value
		}
	}
	return values
}

// ParseOutputs reads a deployment's outputs. missing names those that it lacks: it
// is no deployment of Expunge, or one of another version.
func ParseOutputs(values map[string]string) (o Outputs, missing []string) {
	for _, out := range outputs() {
		value := values[out.name]
		if *out.field(&o) = value; value == "" && !out.optional {
			missing = append(missing, out.name)
		}
	}
	return o, missing
}

// StackName is the name of a stage's stack.
func StackName(stage string) string { return "expunge-" + strings.ToLower(stage) }
