package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/policy"
)

// instantLiteral is what EventBridge Scheduler puts the instant in for.
const instantLiteral = "<aws.scheduler.scheduled-time>"

// repair puts right from outside what ministack drops or bends of the template. The
// repair reports whether it was needed: one that is not has outlived its reason.
type repair struct {
	name, why string
	do        func(*region, context.Context, *testing.T) (needed bool)
}

func repairs() []repair {
	return []repair{
		{"table", "a replica's deletion protection and recovery are dropped", (*region).protectTable},
		{"evidence", "Object Lock is dropped", (*region).lockEvidence},
		{"grants", "a batch of messages asks for an action of its own, and the first key of a bulk delete of versions for s3:DeleteObject", (*region).grantMore},
		{"senders", "aws:PrincipalArn of a function is its session's ARN, where AWS has its role's", (*region).nameSessions},
		{"schedules", "the zone is dropped, and the instant is not put into the input: the product refuses the literal, as it must", (*region).setInstants},
	}
}

// repair makes all repairs.
func (r *region) repair(ctx context.Context, t *testing.T, first bool) {
	t.Helper()
	for _, each := range repairs() {
		if needed := each.do(r, ctx, t); first && !needed {
			t.Errorf("the repair %q is needless: it is no more so that %s", each.name, each.why)
		}
	}
}

// template is what is read of a synthesised template.
type template struct {
	Resources map[string]resource
}

type resource struct {
	Type       string
	Properties map[string]any
}

func readTemplate(t *testing.T, name string) (all template) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil || len(all.Resources) == 0 {
		t.Fatalf("read the template: %v", err)
	}
	return all
}

// of lists the logical ids of a type, in order.
func (a template) of(kind string) (ids []string) {
	for id, each := range a.Resources {
		if each.Type == kind {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// in follows names and indexes into a value of the template.
func in(v any, where ...any) any {
	for _, step := range where {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any) // absent is nil
			v = m[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

// texts is one text or a list, as policies write both.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, each := range v {
			if text, ok := each.(string); ok {
				all = append(all, text)
			}
		}
	}
	return all
}

func (r *region) protectTable(ctx context.Context, t *testing.T) (needed bool) {
	client := dynamodb.NewFromConfig(r.config.Config)
	for _, id := range r.template.of("AWS::DynamoDB::GlobalTable") {
		replica := in(r.template.Resources[id].Properties, "Replicas", 0)
		name := r.resources[id]
		was, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
		if err != nil {
			t.Fatal(err)
		}
		if in(replica, "DeletionProtectionEnabled") == true && !aws.ToBool(was.Table.DeletionProtectionEnabled) {
			needed = true
			_, err = client.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &name, DeletionProtectionEnabled: aws.Bool(true)})
		}
		if err == nil && in(replica, "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled") == true {
			_, err = client.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
				TableName: &name, PointInTimeRecoverySpecification: &dynamotypes.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return needed
}

func (r *region) lockEvidence(ctx context.Context, t *testing.T) (needed bool) {
	for _, id := range r.template.of("AWS::S3::Bucket") {
		rule := in(r.template.Resources[id].Properties, "ObjectLockConfiguration", "Rule", "DefaultRetention")
		if rule == nil {
			continue
		}
		bucket := r.resources[id]
		if _, err := r.buckets.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &bucket}); err == nil {
			continue
		}
		needed = true
		mode, _ := in(rule, "Mode").(string)
		days, _ := in(rule, "Days").(float64)
		if err := r.lock(ctx, bucket, s3types.ObjectLockRetentionMode(mode), int32(days)); err != nil {
			t.Fatal(err)
		}
	}
	return needed
}

// lock switches Object Lock on, with a retention of every object where a mode is given.
func (r *region) lock(ctx context.Context, bucket string, mode s3types.ObjectLockRetentionMode, days int32) error {
	c := &s3types.ObjectLockConfiguration{ObjectLockEnabled: s3types.ObjectLockEnabledEnabled}
	if mode != "" {
		c.Rule = &s3types.ObjectLockRule{DefaultRetention: &s3types.DefaultRetention{Mode: mode, Days: &days}}
	}
	_, err := r.buckets.PutObjectLockConfiguration(ctx, &s3.PutObjectLockConfigurationInput{Bucket: &bucket, ObjectLockConfiguration: c})
	return err
}

// asked are actions of AWS, and what ministack asks for besides.
var asked = map[string]string{
	"sqs:SendMessage": "sqs:SendMessageBatch", "sqs:DeleteMessage": "sqs:DeleteMessageBatch",
	"sqs:ChangeMessageVisibility": "sqs:ChangeMessageVisibilityBatch", "s3:DeleteObjectVersion": "s3:DeleteObject",
}

// withAsked adds to the actions what ministack asks for besides.
func withAsked(actions []string) []string {
	all := slices.Clone(actions)
	for _, action := range actions {
		if more := asked[action]; more != "" && !slices.Contains(all, more) {
			all = append(all, more)
		}
	}
	return all
}

// grantMore gives each role what ministack asks for besides the actions that its own
// policy gives it, on the same resources. It is a stack of its own: the application's
// stays as it was deployed.
func (r *region) grantMore(ctx context.Context, t *testing.T) (needed bool) {
	added := map[string]any{}
	for _, id := range r.template.of("AWS::IAM::Policy") {
		p := r.template.Resources[id].Properties
		statements, _ := in(p, "PolicyDocument", "Statement").([]any)
		var more []any
		for _, s := range statements {
			actions := texts(in(s, "Action"))
			if besides := withAsked(actions)[len(actions):]; len(besides) > 0 {
				more = append(more, map[string]any{"Effect": "Allow", "Action": besides, "Resource": r.resolve(t, in(s, "Resource"))})
			}
		}
		if len(more) > 0 {
			added[id] = map[string]any{"Type": "AWS::IAM::Policy", "Properties": map[string]any{
				"PolicyName": "repair", "Roles": r.resolve(t, p["Roles"]),
				"PolicyDocument": map[string]any{"Version": "2012-10-17", "Statement": more},
			}}
		}
	}
	body, err := json.Marshal(map[string]any{"Resources": added})
	if err != nil {
		t.Fatal(err)
	}
	r.repairStack(ctx, t, string(body))
	return len(added) > 0
}

// repairStack deploys the stack of the repaired grants, once.
func (r *region) repairStack(ctx context.Context, t *testing.T, body string) {
	t.Helper()
	name := contract.StackName(stage) + "-repairs"
	was, err := r.stacks.GetTemplate(ctx, &cloudformation.GetTemplateInput{StackName: &name})
	if err == nil {
		if aws.ToString(was.TemplateBody) != body {
			t.Fatal("the update has changed grants that the repair follows only once")
		}
		return
	}
	capabilities := []types.Capability{types.CapabilityCapabilityIam}
	if _, err := r.stacks.CreateStack(ctx, &cloudformation.CreateStackInput{StackName: &name, TemplateBody: &body, Capabilities: capabilities}); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the repaired grants are there", 20*time.Second, time.Second/5, func() (bool, error) {
		out, err := r.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
		return err == nil && len(out.Stacks) == 1 && out.Stacks[0].StackStatus == types.StackStatusCreateComplete, err
	})
}

// resolve turns references of the template to resources into names and ARNs. It knows
// those that stand in the repaired grants.
func (r *region) resolve(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = r.resolve(t, v[i])
		}
		return all
	case map[string]any:
		if id, ok := v["Ref"].(string); ok {
			if strings.HasPrefix(id, "AWS::") {
				return v // it means the same in the other stack
			}
			return r.resources[id]
		}
		if parts, ok := v["Fn::Join"]; ok {
			return map[string]any{"Fn::Join": r.resolve(t, parts)}
		}
		if id, ok := in(v, "Fn::GetAtt", 0).(string); ok && in(v, "Fn::GetAtt", 1) == "Arn" && r.template.Resources[id].Type == "AWS::SQS::Queue" {
			return "arn:aws:sqs:" + home + ":" + account + ":" + path.Base(r.resources[id])
		}
		t.Fatalf("the repair of grants does not know the reference %v", v)
	}
	return v
}

// nameSessions adds to each role that a queue's policy names the sessions of it, and to
// each action what ministack asks for besides.
func (r *region) nameSessions(ctx context.Context, t *testing.T) (needed bool) {
	for _, id := range r.template.of("AWS::SQS::QueuePolicy") {
		for _, queue := range in(r.template.Resources[id].Properties, "Queues").([]any) { //nolint:errcheck // a policy of no queue has no effect to repair
			url, ok := r.resolve(t, queue).(string)
			if !ok {
				t.Fatalf("the policy %s names a queue in another way", id)
			}
			if r.nameSessionsOf(ctx, t, url) {
				needed = true
			}
		}
	}
	return needed
}

func (r *region) nameSessionsOf(ctx context.Context, t *testing.T, url string) (needed bool) {
	name := sqstypes.QueueAttributeNamePolicy
	out, err := r.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{name}})
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal([]byte(out.Attributes[string(name)]), &document); err != nil {
		t.Fatalf("the policy of %s: %v", url, err)
	}
	statements, _ := document["Statement"].([]any)
	for _, s := range statements {
		condition, _ := in(s, "Condition", "ArnNotEquals").(map[string]any)
		roles := texts(condition["aws:PrincipalArn"])
		if len(roles) == 0 {
			continue
		}
		needed = true
		for _, role := range slices.Clone(roles) {
			sessions := strings.Replace(strings.Replace(role, ":iam:", ":sts:", 1), ":role/", ":assumed-role/", 1) + "/*"
			if !slices.Contains(roles, sessions) {
				roles = append(roles, sessions)
			}
		}
		condition["aws:PrincipalArn"] = roles
		if statement, ok := s.(map[string]any); ok {
			statement["Action"] = withAsked(texts(statement["Action"]))
		}
	}
	if !needed {
		return false
	}
	text, err := json.Marshal(document)
	if err == nil {
		_, err = r.queues.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{string(name): string(text)}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// setInstants puts into each schedule of a policy the next instant that it means, and
// into every schedule its zone.
func (r *region) setInstants(ctx context.Context, t *testing.T) (needed bool) {
	policies, err := policy.ReadFolder(os.DirFS(path.Join(r.dir, "policies")))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range r.template.of("AWS::Scheduler::Schedule") {
		name := r.resources[id]
		was, err := r.schedules.GetSchedule(ctx, &scheduler.GetScheduleInput{GroupName: &r.outputs.Schedules, Name: &name})
		if err != nil {
			t.Fatal(err)
		}
		zone, _ := r.template.Resources[id].Properties["ScheduleExpressionTimezone"].(string)
		input := aws.ToString(was.Target.Input)
		if strings.Contains(input, instantLiteral) {
			needed = true
			var tick struct{ Policy string }
			if err := json.Unmarshal([]byte(input), &tick); err != nil {
				t.Fatal(err)
			}
			p, ok := policies[tick.Policy]
			if !ok {
				t.Fatalf("the schedule %s is of no policy", name)
			}
			input = strings.ReplaceAll(input, instantLiteral, p.Schedule.Next(time.Now()).UTC().Format(time.RFC3339))
		}
		was.Target.Input = &input
		if err := r.updateSchedule(ctx, was, zone); err != nil {
			t.Fatal(err)
		}
	}
	return needed
}

func (r *region) updateSchedule(ctx context.Context, s *scheduler.GetScheduleOutput, zone string) error {
	in := &scheduler.UpdateScheduleInput{
		GroupName: s.GroupName, Name: s.Name, ScheduleExpression: s.ScheduleExpression, FlexibleTimeWindow: s.FlexibleTimeWindow,
		Target: s.Target, Description: s.Description, State: schedulertypes.ScheduleStateEnabled,
	}
	if zone != "" {
		in.ScheduleExpressionTimezone = &zone
	}
	_, err := r.schedules.UpdateSchedule(ctx, in)
	return err
}
