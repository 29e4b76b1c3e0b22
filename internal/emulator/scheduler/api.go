package scheduler

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// read decodes and checks a definition, and names its schedule.
func (s *Service) read(r *wire.Request) (d definition, e expression, k key, err *wire.Error) {
	if err := decode(r, &d); err != nil {
		return d, e, k, err
	}
	name := pathName(r)
	if !namePattern.MatchString(name) {
		return d, e, k, invalid("Value '" + name + "' at 'name' failed to satisfy constraint: Member must satisfy regular expression pattern: ^[0-9a-zA-Z-_.]+$")
	}
	e, err = s.check(&d, s.clock.Now())
	return d, e, key{r.Region, d.GroupName, name}, err
}

// wake lets Run look again.
func (s *Service) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *Service) createSchedule(r *wire.Request) (any, *wire.Error) {
	d, e, k, err := s.read(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := map[string]any{"ScheduleArn": k.arn()}
	switch x := s.schedules[k]; {
	case !s.hasGroup(k):
		return nil, notFound("Schedule group " + k.group)
	case x != nil && d.ClientToken != "" && d.ClientToken == x.ClientToken && string(r.Body) == x.body:
		return answer, nil // the same request once more: its answer was lost
	case x != nil:
		return nil, conflict("Schedule " + k.name)
	}
	now := s.clock.Now()
	x := &schedule{key: k, created: now, body: string(r.Body)}
	x.define(d, e, now)
	s.schedules[k] = x
	s.wake()
	return answer, nil
}

// updateSchedule replaces the whole definition: what a request leaves out has its
// default again.
func (s *Service) updateSchedule(r *wire.Request) (any, *wire.Error) {
	d, e, k, err := s.read(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.schedules[k]
	if x == nil {
		return nil, notFound("Schedule " + k.name)
	}
	x.define(d, e, s.clock.Now())
	x.body = "" // a repetition of the request that created it is one no more
	s.wake()
	return map[string]any{"ScheduleArn": k.arn()}, nil
}

// named finds the schedule that a request without a body names.
func (s *Service) named(r *wire.Request) (key, *schedule, *wire.Error) {
	k := key{r.Region, or(r.URL.Query().Get("groupName"), defaultGroup), pathName(r)}
	if x := s.schedules[k]; x != nil {
		return k, x, nil
	}
	return k, nil, notFound("Schedule " + k.name)
}

func (s *Service) getSchedule(r *wire.Request) (any, *wire.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, x, err := s.named(r)
	if err != nil {
		return nil, err
	}
	d := x.definition
	d.ClientToken = ""
	return struct {
		definition
		Arn, Name                          string
		CreationDate, LastModificationDate float64
	}{d, x.key.arn(), x.key.name, epoch(x.created), epoch(x.modified)}, nil
}

// deleteSchedule removes a schedule. What it has begun to deliver goes on.
func (s *Service) deleteSchedule(r *wire.Request) (any, *wire.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, _, err := s.named(r)
	if err != nil {
		return nil, err
	}
	delete(s.schedules, k)
	return struct{}{}, nil
}

func (s *Service) listSchedules(r *wire.Request) (any, *wire.Error) {
	query := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*schedule
	for k, x := range s.schedules {
		inGroup := query.Get("ScheduleGroup") == "" || query.Get("ScheduleGroup") == k.group
		inState := query.Get("State") == "" || query.Get("State") == x.State
		if k.region == r.Region && inGroup && inState && strings.HasPrefix(k.name, query.Get("NamePrefix")) {
			all = append(all, x)
		}
	}
	page, next, err := paged(r, all, func(x *schedule) string { return x.key.group + "/" + x.key.name })
	if err != nil {
		return nil, err
	}
	summaries := []any{}
	for _, x := range page {
		summaries = append(summaries, map[string]any{
			"Arn": x.key.arn(), "Name": x.key.name, "GroupName": x.key.group, "State": x.State,
			"CreationDate": epoch(x.created), "LastModificationDate": epoch(x.modified),
			"Target": map[string]any{"Arn": x.Target.Arn},
		})
	}
	return withToken(map[string]any{"Schedules": summaries}, next), nil
}

// paged sorts and cuts a list as MaxResults and NextToken say.
func paged[T any](r *wire.Request, all []T, name func(T) string) (page []T, next string, err *wire.Error) {
	query := r.URL.Query()
	limit := 100
	if text := query.Get("MaxResults"); text != "" {
		n, failed := strconv.Atoi(text)
		if failed != nil || n < 1 || n > 100 {
			return nil, "", invalid("MaxResults must be between 1 and 100.")
		}
		limit = n
	}
	after, failed := base64.RawURLEncoding.DecodeString(query.Get("NextToken"))
	if failed != nil {
		return nil, "", invalid("Invalid NextToken.")
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	for _, item := range all {
		if name(item) <= string(after) {
			continue
		}
		if len(page) == limit {
			return page, base64.RawURLEncoding.EncodeToString([]byte(name(page[limit-1]))), nil
		}
		page = append(page, item)
	}
	return page, "", nil
}

func withToken(answer map[string]any, next string) map[string]any {
	if next != "" {
		answer["NextToken"] = next
	}
	return answer
}

// hasGroup reports whether a schedule's group is there. The caller holds the lock.
func (s *Service) hasGroup(k key) bool {
	return k.group == defaultGroup || s.groups[key{k.region, k.group, ""}] != nil
}

func groupARN(k key) string {
	return "arn:aws:scheduler:" + k.region + ":" + wire.Account + ":schedule-group/" + k.group
}

func (s *Service) createGroup(r *wire.Request) (any, *wire.Error) {
	var in struct{ ClientToken string }
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	k := key{r.Region, pathName(r), ""}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !namePattern.MatchString(k.group):
		return nil, invalid("Value '" + k.group + "' at 'name' failed to satisfy constraint: Member must satisfy regular expression pattern: ^[0-9a-zA-Z-_.]+$")
	case s.hasGroup(k):
		return nil, conflict("Schedule group " + k.group)
	}
	s.groups[k] = &group{created: s.clock.Now()}
	return map[string]any{"ScheduleGroupArn": groupARN(k)}, nil
}

// describeGroup is a group as the API shows it. The caller holds the lock.
func (s *Service) describeGroup(k key) map[string]any {
	answer := map[string]any{"Arn": groupARN(k), "Name": k.group, "State": "ACTIVE"}
	if g := s.groups[k]; g != nil {
		answer["CreationDate"], answer["LastModificationDate"] = epoch(g.created), epoch(g.created)
	}
	return answer
}

func (s *Service) getGroup(r *wire.Request) (any, *wire.Error) {
	k := key{r.Region, pathName(r), ""}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasGroup(k) {
		return nil, notFound("Schedule group " + k.group)
	}
	return s.describeGroup(k), nil
}

// deleteGroup removes a group with its schedules. AWS takes a while for it.
func (s *Service) deleteGroup(r *wire.Request) (any, *wire.Error) {
	k := key{r.Region, pathName(r), ""}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case k.group == defaultGroup:
		return nil, invalid("The default schedule group cannot be deleted.")
	case !s.hasGroup(k):
		return nil, notFound("Schedule group " + k.group)
	}
	delete(s.groups, k)
	for other := range s.schedules {
		if other.region == k.region && other.group == k.group {
			delete(s.schedules, other)
		}
	}
	return struct{}{}, nil
}

func (s *Service) listGroups(r *wire.Request) (any, *wire.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []key{{r.Region, defaultGroup, ""}}
	for k := range s.groups {
		if k.region == r.Region {
			all = append(all, k)
		}
	}
	prefix := r.URL.Query().Get("NamePrefix")
	all = slices.DeleteFunc(all, func(k key) bool { return !strings.HasPrefix(k.group, prefix) })
	page, next, err := paged(r, all, func(k key) string { return k.group })
	if err != nil {
		return nil, err
	}
	groups := []any{}
	for _, k := range page {
		groups = append(groups, s.describeGroup(k))
	}
	return withToken(map[string]any{"ScheduleGroups": groups}, next), nil
}
