package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

func TestSchedules(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	in := define("daily", "cron(30 2 * * ? *)", func(in *sdk.CreateScheduleInput) {
		in.ScheduleExpressionTimezone = aws.String("Europe/Berlin")
		in.Description = aws.String("every night")
		in.EndDate = aws.Time(start.AddDate(1, 0, 0))
		in.Target.RetryPolicy = &types.RetryPolicy{MaximumRetryAttempts: aws.Int32(0)}
		in.Target.DeadLetterConfig = &types.DeadLetterConfig{Arn: aws.String(queueARN)}
		in.ClientToken = aws.String("token")
	})
	out, err := w.client.CreateSchedule(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	const arn = "arn:aws:scheduler:eu-central-1:000000000000:schedule/default/daily"
	if aws.ToString(out.ScheduleArn) != arn {
		t.Fatalf("got %s", aws.ToString(out.ScheduleArn))
	}
	if again, err := w.client.CreateSchedule(ctx, in); err != nil || aws.ToString(again.ScheduleArn) != arn {
		t.Fatalf("the same request once more: %v", err)
	}
	in.ClientToken = aws.String("another")
	_, err = w.client.CreateSchedule(ctx, in)
	wantCode(t, err, "ConflictException")

	got, err := w.client.GetSchedule(ctx, &sdk.GetScheduleInput{Name: aws.String("daily")})
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToString(got.Arn) != arn || aws.ToString(got.GroupName) != "default" || aws.ToString(got.ScheduleExpressionTimezone) != "Europe/Berlin" ||
		got.State != types.ScheduleStateEnabled || got.ActionAfterCompletion != types.ActionAfterCompletionNone ||
		!got.CreationDate.Equal(start) || !got.EndDate.Equal(start.AddDate(1, 0, 0)) || got.StartDate != nil ||
		aws.ToInt32(got.Target.RetryPolicy.MaximumRetryAttempts) != 0 || got.Target.RetryPolicy.MaximumRetryAttempts == nil ||
		aws.ToString(got.Target.DeadLetterConfig.Arn) != queueARN || aws.ToString(got.Target.Input) != timeInput ||
		aws.ToString(got.Description) != "every night" {
		t.Fatalf("got %+v", got)
	}

	w.clock.Advance(time.Minute)
	update := &sdk.UpdateScheduleInput{
		Name: in.Name, ScheduleExpression: aws.String("rate(1 hour)"), FlexibleTimeWindow: in.FlexibleTimeWindow,
		Target: &types.Target{Arn: in.Target.Arn, RoleArn: in.Target.RoleArn},
	}
	if _, err := w.client.UpdateSchedule(ctx, update); err != nil {
		t.Fatal(err)
	}
	got, err = w.client.GetSchedule(ctx, &sdk.GetScheduleInput{Name: aws.String("daily")})
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToString(got.ScheduleExpression) != "rate(1 hour)" || got.Description != nil || got.EndDate != nil || got.Target.RetryPolicy != nil ||
		!got.CreationDate.Equal(start) || !got.LastModificationDate.Equal(start.Add(time.Minute)) || aws.ToString(got.ScheduleExpressionTimezone) != "UTC" {
		t.Fatalf("an update replaces everything, got %+v", got)
	}

	if _, err := w.client.DeleteSchedule(ctx, &sdk.DeleteScheduleInput{Name: aws.String("daily")}); err != nil {
		t.Fatal(err)
	}
	_, err = w.client.GetSchedule(ctx, &sdk.GetScheduleInput{Name: aws.String("daily")})
	wantCode(t, err, "ResourceNotFoundException")
	_, err = w.client.DeleteSchedule(ctx, &sdk.DeleteScheduleInput{Name: aws.String("daily")})
	wantCode(t, err, "ResourceNotFoundException")
	_, err = w.client.UpdateSchedule(ctx, update)
	wantCode(t, err, "ResourceNotFoundException")
}

func TestValidation(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name   string
		code   string
		change func(*sdk.CreateScheduleInput)
	}{
		{"HP-12 no JSON for a function", "", func(in *sdk.CreateScheduleInput) {
			in.Target.Input = aws.String(`{"at":<aws.scheduler.scheduled-time>}`)
		}},
		{"an expression", "", func(in *sdk.CreateScheduleInput) { in.ScheduleExpression = aws.String("garbage") }},
		{"a cron of five fields", "", func(in *sdk.CreateScheduleInput) { in.ScheduleExpression = aws.String("cron(30 2 * * *)") }},
		{"a zone", "", func(in *sdk.CreateScheduleInput) { in.ScheduleExpressionTimezone = aws.String("Mars/Olympus") }},
		{"the machine's zone", "", func(in *sdk.CreateScheduleInput) { in.ScheduleExpressionTimezone = aws.String("Local") }},
		{"a zone by its path", "", func(in *sdk.CreateScheduleInput) { in.ScheduleExpressionTimezone = aws.String("../UTC") }},
		{"a name", "", func(in *sdk.CreateScheduleInput) { in.Name = aws.String("a b") }},
		{"a long name", "", func(in *sdk.CreateScheduleInput) { in.Name = aws.String(strings.Repeat("x", 65)) }},
		{"a state", "", func(in *sdk.CreateScheduleInput) { in.State = "PAUSED" }},
		{"an action", "", func(in *sdk.CreateScheduleInput) { in.ActionAfterCompletion = "KEEP" }},
		{"a start that is over", "", func(in *sdk.CreateScheduleInput) { in.StartDate = aws.Time(start.Add(-6 * time.Minute)) }},
		{"an end that is over", "", func(in *sdk.CreateScheduleInput) { in.EndDate = aws.Time(start) }},
		{"an end before the start", "", func(in *sdk.CreateScheduleInput) {
			in.StartDate, in.EndDate = aws.Time(start.Add(2*time.Hour)), aws.Time(start.Add(time.Hour))
		}},
		{"a time that is over", "", func(in *sdk.CreateScheduleInput) { in.ScheduleExpression = aws.String("at(2026-03-06T23:59:59)") }},
		{"a window while off", "", func(in *sdk.CreateScheduleInput) { in.FlexibleTimeWindow.MaximumWindowInMinutes = aws.Int32(5) }},
		{"a window of a day and a minute", "", func(in *sdk.CreateScheduleInput) {
			in.FlexibleTimeWindow = &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeFlexible, MaximumWindowInMinutes: aws.Int32(1441)}
		}},
		{"a window without a length", "", func(in *sdk.CreateScheduleInput) {
			in.FlexibleTimeWindow = &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeFlexible}
		}},
		{"a window's mode", "", func(in *sdk.CreateScheduleInput) { in.FlexibleTimeWindow.Mode = "MAYBE" }},
		{"a target", "", func(in *sdk.CreateScheduleInput) { in.Target.Arn = aws.String("enqueue") }},
		{"a role", "", func(in *sdk.CreateScheduleInput) { in.Target.RoleArn = aws.String("scheduler") }},
		{"a FIFO queue for dead letters", "", func(in *sdk.CreateScheduleInput) {
			in.Target.DeadLetterConfig = &types.DeadLetterConfig{Arn: aws.String(queueARN + ".fifo")}
		}},
		{"186 retries", "", func(in *sdk.CreateScheduleInput) {
			in.Target.RetryPolicy = &types.RetryPolicy{MaximumRetryAttempts: aws.Int32(186)}
		}},
		{"59 seconds", "", func(in *sdk.CreateScheduleInput) {
			in.Target.RetryPolicy = &types.RetryPolicy{MaximumEventAgeInSeconds: aws.Int32(59)}
		}},
		{"a group that is not there", "ResourceNotFoundException", func(in *sdk.CreateScheduleInput) { in.GroupName = aws.String("night") }},
		{"a key", "NotImplemented", func(in *sdk.CreateScheduleInput) {
			in.KmsKeyArn = aws.String("arn:aws:kms:eu-central-1:000000000000:key/1")
		}},
		{"a message group", "NotImplemented", func(in *sdk.CreateScheduleInput) {
			in.Target.SqsParameters = &types.SqsParameters{MessageGroupId: aws.String("g")}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.code == "" {
				c.code = "ValidationException"
			}
			_, err := w.client.CreateSchedule(t.Context(), define("daily", "cron(30 2 * * ? *)", c.change))
			wantCode(t, err, c.code)
		})
	}
	w.wantSchedules()
	w.scheduler.DeadLetter = nil
	_, err := w.client.CreateSchedule(t.Context(), define("daily", "rate(1 day)", func(in *sdk.CreateScheduleInput) {
		in.Target.DeadLetterConfig = &types.DeadLetterConfig{Arn: aws.String(queueARN)}
	}))
	wantCode(t, err, "NotImplemented")
}

func TestGroups(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	night := aws.String("night")
	if _, err := w.client.CreateScheduleGroup(ctx, &sdk.CreateScheduleGroupInput{Name: night}); err != nil {
		t.Fatal(err)
	}
	_, err := w.client.CreateScheduleGroup(ctx, &sdk.CreateScheduleGroupInput{Name: night})
	wantCode(t, err, "ConflictException")
	_, err = w.client.CreateScheduleGroup(ctx, &sdk.CreateScheduleGroupInput{Name: aws.String("default")})
	wantCode(t, err, "ConflictException")
	_, err = w.client.CreateScheduleGroup(ctx, &sdk.CreateScheduleGroupInput{Name: aws.String("x"), Tags: []types.Tag{{Key: night, Value: night}}})
	wantCode(t, err, "NotImplemented")

	w.create("daily", "rate(1 day)", nil)
	w.create("daily", "rate(2 days)", func(in *sdk.CreateScheduleInput) { in.GroupName = night }) // the same name in another group
	got, err := w.client.GetSchedule(ctx, &sdk.GetScheduleInput{Name: aws.String("daily"), GroupName: night})
	if err != nil || aws.ToString(got.ScheduleExpression) != "rate(2 days)" {
		t.Fatalf("got %+v, %v", got, err)
	}
	group, err := w.client.GetScheduleGroup(ctx, &sdk.GetScheduleGroupInput{Name: night})
	if err != nil || group.State != types.ScheduleGroupStateActive || !group.CreationDate.Equal(start) {
		t.Fatalf("got %+v, %v", group, err)
	}
	groups, err := w.client.ListScheduleGroups(ctx, &sdk.ListScheduleGroupsInput{})
	if err != nil || len(groups.ScheduleGroups) != 2 {
		t.Fatalf("got %+v, %v", groups, err)
	}
	_, err = w.client.DeleteScheduleGroup(ctx, &sdk.DeleteScheduleGroupInput{Name: aws.String("default")})
	wantCode(t, err, "ValidationException")
	if _, err := w.client.DeleteScheduleGroup(ctx, &sdk.DeleteScheduleGroupInput{Name: night}); err != nil {
		t.Fatal(err)
	}
	w.wantSchedules("daily")
	_, err = w.client.GetScheduleGroup(ctx, &sdk.GetScheduleGroupInput{Name: night})
	wantCode(t, err, "ResourceNotFoundException")
	_, err = w.client.DeleteScheduleGroup(ctx, &sdk.DeleteScheduleGroupInput{Name: night})
	wantCode(t, err, "ResourceNotFoundException")
}

func TestLists(t *testing.T) {
	w := newWorld(t)
	for n := range 7 {
		w.create(fmt.Sprintf("s%d", n), "rate(1 day)", func(in *sdk.CreateScheduleInput) {
			if n%2 == 1 {
				in.State = types.ScheduleStateDisabled
			}
		})
	}
	w.create("other", "rate(1 day)", nil)
	list := func(in *sdk.ListSchedulesInput) string {
		t.Helper()
		var names []string
		pages := sdk.NewListSchedulesPaginator(w.client, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Schedules {
				names = append(names, aws.ToString(s.Name))
			}
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct {
		in   *sdk.ListSchedulesInput
		want string
	}{
		{&sdk.ListSchedulesInput{MaxResults: aws.Int32(3)}, "other s0 s1 s2 s3 s4 s5 s6"},
		{&sdk.ListSchedulesInput{NamePrefix: aws.String("s"), State: types.ScheduleStateDisabled}, "s1 s3 s5"},
		{&sdk.ListSchedulesInput{GroupName: aws.String("none")}, ""},
	} {
		if got := list(c.in); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// Regions know nothing of each other, and what is not offered is an error.
func TestRegionsAndTheRest(t *testing.T) {
	w := newWorld(t)
	w.create("daily", "rate(1 day)", nil)
	elsewhere := sdk.New(w.client.Options(), func(o *sdk.Options) { o.Region = "us-east-1" })
	_, err := elsewhere.GetSchedule(t.Context(), &sdk.GetScheduleInput{Name: aws.String("daily")})
	wantCode(t, err, "ResourceNotFoundException")
	_, err = w.client.ListTagsForResource(t.Context(), &sdk.ListTagsForResourceInput{ResourceArn: aws.String("arn")})
	wantCode(t, err, "NotImplemented")
}

// HP-09: a target that is handed the same instant twice is told the same time, by
// which it can see so.
func TestSameInstantTwice(t *testing.T) {
	w := newWorld(t)
	failures := 1
	w.answer = func(string) error { // the effect happened, and its answer was lost
		failures--
		if failures >= 0 {
			return &wire.Error{Code: "ServiceException", Message: "lost"}
		}
		return nil
	}
	w.create("daily", "cron(0 1 * * ? *)", nil)
	w.to("2026-03-07T01:30:00Z", "2026-03-07T01:00:00Z", "2026-03-07T01:00:00Z")
	if m := w.scheduler.Metrics(); m.InvocationAttempts != 2 || m.TargetErrors != 1 {
		t.Fatalf("got %+v", m)
	}
}
