package conformance

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Operator checks what an operator's tool asks of the services that hold no data:
// who it is, and how they say that there is no such stack, topic, function or
// schedule. A tool that can not tell "there is none" from "I may not see it" or "not
// now" tells its user the wrong thing to do.
func Operator(t *testing.T, target Target) { run(t, target, target, operatorChecks()) }

// operatorChecks are the checks in their order. They make nothing.
func operatorChecks() []check[Target] {
	return []check[Target]{
		{"GetCallerIdentity names the account and who asks", operatorIdentity},
		{"DescribeStacks of an unknown stack -> ValidationError that names it", operatorStack},
		{"an unknown topic -> NotFound", operatorTopic},
		{"an unknown function -> ResourceNotFoundException, and a queue without mappings has none", operatorFunction},
		{"an unknown schedule -> ResourceNotFoundException", operatorSchedule},
	}
}

// account returns the account that the target's credentials belong to.
func account(t *testing.T, target Target) string {
	t.Helper()
	return *must(target.STSClient(home).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}))(t).Account
}

func operatorIdentity(t *testing.T, target Target) {
	me := must(target.STSClient(home).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}))(t)
	account := aws.ToString(me.Account)
	if len(account) != 12 || strings.Trim(account, "0123456789") != "" {
		t.Errorf("the account is %q", account)
	}
	if arn := aws.ToString(me.Arn); !strings.HasPrefix(arn, "arn:aws") || !strings.Contains(arn, ":"+account+":") || aws.ToString(me.UserId) == "" {
		t.Errorf("the caller is %s, %s", arn, aws.ToString(me.UserId))
	}
}

func operatorStack(t *testing.T, target Target) {
	stack := name("stack")
	client := target.CloudFormationClient(home)
	_, err := client.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: &stack})
	wantCode(t, err, "ValidationError")
	if !strings.Contains(err.Error(), "Stack with id "+stack+" does not exist") || !strings.Contains(err.Error(), "StatusCode: 400") {
		t.Errorf("got %v", err)
	}
}

func operatorTopic(t *testing.T, target Target) {
	arn := aws.String("arn:aws:sns:" + home + ":" + account(t, target) + ":" + name("topic"))
	client := target.SNSClient(home)
	_, err := client.GetTopicAttributes(t.Context(), &sns.GetTopicAttributesInput{TopicArn: arn})
	wantCode(t, err, "NotFound")
	_, err = client.ListSubscriptionsByTopic(t.Context(), &sns.ListSubscriptionsByTopicInput{TopicArn: arn})
	wantCode(t, err, "NotFound")
}

func operatorFunction(t *testing.T, target Target) {
	function := name("function")
	client := target.LambdaClient(home)
	_, err := client.GetFunction(t.Context(), &lambda.GetFunctionInput{FunctionName: &function})
	wantCode(t, err, "ResourceNotFoundException")
	_, err = client.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &function})
	wantCode(t, err, "ResourceNotFoundException")
	_, err = client.GetFunctionConcurrency(t.Context(), &lambda.GetFunctionConcurrencyInput{FunctionName: &function})
	wantCode(t, err, "ResourceNotFoundException")
	_, err = client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &function})
	wantCode(t, err, "ResourceNotFoundException")
	queue := aws.String("arn:aws:sqs:" + home + ":" + account(t, target) + ":" + name("q"))
	if out := must(client.ListEventSourceMappings(t.Context(), &lambda.ListEventSourceMappingsInput{EventSourceArn: queue}))(t); len(out.EventSourceMappings) != 0 {
		t.Errorf("got %+v", out.EventSourceMappings)
	}
}

func operatorSchedule(t *testing.T, target Target) {
	schedule := name("schedule")
	client := target.SchedulerClient(home)
	_, err := client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: &schedule})
	wantCode(t, err, "ResourceNotFoundException")
	_, err = client.DeleteSchedule(t.Context(), &scheduler.DeleteScheduleInput{Name: &schedule})
	wantCode(t, err, "ResourceNotFoundException")
	if out := must(client.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{NamePrefix: &schedule}))(t); len(out.Schedules) != 0 {
		t.Errorf("got %+v", out.Schedules)
	}
}
