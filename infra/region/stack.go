// Package region declares one region's whole deployment of Expunge.
//
// New is a list of calls, each of which declares one thing and returns what the next
// ones need of it. Numbers come from contract, names and thresholds from the policies:
// nothing here is a second copy of what a function or a policy file says. What is kept
// for ever - ledger, evidence, logs - stands on the stack itself and not in constructs
// of its own, because a moved logical id is a new, empty table.
package region

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
)

// queues are the stack's queues.
type queues struct {
	Pages, Report   awssqs.Queue // of pages to enforce, and to report on
	Letters         awssqs.Queue // dead letters of both
	ScheduleLetters awssqs.Queue // ticks that no function took or finished
}

// functions are the stack's functions.
type functions struct {
	Enqueue, Worker, ReportWorker, Reconcile, Redrive, Hold awslambda.Function
}

// topics are where alarms go: to wake somebody, or to wait for the morning.
type topics struct {
	Page, Ticket awssns.Topic
}

// parts are what a region is made of.
type parts struct {
	awscdk.Stack
	Config
	queues
	functions
	topics
	Ledger   awsdynamodb.TableV2
	Evidence awss3.Bucket
}

// New declares the stack. The configuration is valid: see Config.
func New(scope constructs.Construct, c Config) awscdk.Stack {
	p := &parts{Config: c}
	return p.Stack
}
