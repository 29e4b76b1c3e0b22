package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// permission is something that a worker has to be allowed.
type permission struct {
	action   string
	resource string // an ARN: of the bucket, or of a key that nobody has
	below    string // what the ARNs of all the policy's keys begin with; "" of a bucket
}

// permissionsFor lists what the worker of a policy needs on its bucket.
func permissionsFor(p policy.Policy) []permission {
	bucket := "arn:aws:s3:::" + p.Bucket
	below := bucket + "/" + p.Prefix()
	tenant := p.Tenant
	if tenant == "" {
		tenant = nobody
	}
	key := bucket + "/" + strings.Replace(p.Keys, "{tenant}", tenant, 1) + nobody
	all := []permission{{"s3:ListBucket", bucket, ""}}
	if p.Versions == policy.AllVersions {
		all = []permission{{"s3:ListBucketVersions", bucket, ""}}
	}
	switch {
	case p.Mode != job.Enforce:
	case p.Versions == policy.AllVersions:
		all = append(all, permission{"s3:DeleteObjectVersion", key, below})
	default:
		all = append(all, permission{"s3:GetObject", key, below}, permission{"s3:DeleteObject", key, below})
	}
	return all
}

// nobody is a tenant and a name that nobody has.
const nobody = "expunge-doctor"

// rights looks at whether the worker may list, read and delete. Nothing is deleted to
// find out: IAM is asked to simulate it, and where it does not answer, the bucket's
// policy is read for what denies it, and the operator himself lists and looks.
func (b *bucket) rights(ctx context.Context, p policy.Policy) {
	what := b.name + ", rights of " + p.Name
	b.asOperator(ctx, what, p)
	worker := b.r.outputs.Worker
	if p.Mode != job.Enforce {
		worker = b.r.outputs.ReportWorker
	}
	role := ""
	if c, err := b.r.configuration(ctx, worker); err == nil {
		role = aws.ToString(c.Role)
	}
	text, err := b.policyText(ctx)
	if err != nil {
		b.failed(what+", the bucket's policy", err)
		text = ""
	}
	denied, unsure := denials(text, role, permissionsFor(p))
	for _, d := range denied {
		b.problem(what, "the bucket's policy denies "+worker+" "+d, "take the statement away, or exempt the worker's role from it")
	}
	for _, d := range unsure {
		b.warning(what, "the bucket's policy may deny "+worker+" "+d, "read the statement: this tool does not judge conditions and exceptions")
	}
	b.simulated(ctx, what, role, p, err == nil && len(denied)+len(unsure) == 0)
}

// simulated adds what IAM says of the role itself. clean says that the bucket's policy
// was read and denies nothing.
func (b *bucket) simulated(ctx context.Context, what, role string, p policy.Policy, clean bool) {
	verdicts, err := b.r.simulate(ctx, role, permissionsFor(p))
	switch {
	case err == nil && len(verdicts) == 0:
		b.ok(what, "IAM's simulation allows "+actions(permissionsFor(p)))
	case err == nil:
		for _, v := range verdicts {
			b.problem(what, "IAM's simulation does not allow "+v, "grant it to "+role+": "+redeploy)
		}
	case clean:
		b.ok(what, "the bucket's policy denies none of "+actions(permissionsFor(p))+"; whether the role allows them was not asked: "+err.Error())
	default:
		b.note(healthSkipped, what, "whether the role allows "+actions(permissionsFor(p))+" was not asked: "+err.Error(), "")
	}
}

func actions(rights []permission) string {
	names := make([]string, len(rights))
	for i, r := range rights {
		names[i] = r.action
	}
	return strings.Join(names, ", ")
}

// asOperator lists under the policy's prefix and looks at the first object there, with
// the operator's own credentials.
func (b *bucket) asOperator(ctx context.Context, what string, p policy.Policy) {
	store := artifact.NewS3Lister(b.store, b.r.config.Settings)
	page, err := store.List(ctx, job.Query{Bucket: b.name, Prefix: p.Prefix(), Versions: p.Versions == policy.AllVersions})
	if err != nil {
		b.note(healthSkipped, what, "you yourself can not list "+p.Prefix()+" ("+err.Error()+")", "")
		return
	}
	i := slices.IndexFunc(page.Items, func(i job.Item) bool { return !i.Marker })
	if i < 0 {
		b.ok(what, "you yourself can list "+p.Prefix()+"; nothing lies there")
		return
	}
	ctx, done := b.r.config.Limit(ctx)
	defer done()
	in := &awss3.HeadObjectInput{Bucket: &b.name, Key: &page.Items[i].Key}
	if v := page.Items[i].Version; v != "" {
		in.VersionId = &v
	}
	if _, err := b.store.HeadObject(ctx, in); err != nil {
		status := "no answer"
		if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
			status = http.StatusText(response.HTTPStatusCode())
		}
		b.note(healthSkipped, what, "you yourself can list "+p.Prefix()+", and can not look at an object there ("+status+")", "")
		return
	}
	b.ok(what, "you yourself can list "+p.Prefix()+" and look at an object there")
}

// policyText returns the bucket's policy, "" when it has none.
func (b *bucket) policyText(ctx context.Context) (string, error) {
	ctx, done := b.r.config.Limit(ctx)
	defer done()
	out, err := b.store.GetBucketPolicy(ctx, &awss3.GetBucketPolicyInput{Bucket: &b.name})
	if sdk.Code(err) == "NoSuchBucketPolicy" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return aws.ToString(out.Policy), nil
}

// statement is a statement of a bucket's policy, as far as it is judged.
type statement struct {
	ID           string         `json:"Sid"`
	Effect       string         `json:"Effect"`
	Principal    any            `json:"Principal"`
	NotPrincipal any            `json:"NotPrincipal"`
	Action       texts          `json:"Action"`
	NotAction    texts          `json:"NotAction"`
	Resource     texts          `json:"Resource"`
	NotResource  texts          `json:"NotResource"`
	Condition    map[string]any `json:"Condition"`
}

// texts is one text or a list.
type texts []string

// UnmarshalJSON reads both forms.
func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// denials returns which of the rights a bucket's policy denies the role, and which it
// may deny: a condition, an exception or a group of principals is not judged. Each is
// named with its statement.
func denials(text, role string, rights []permission) (denied, unsure []string) {
	if text == "" {
		return nil, nil
	}
	var p struct {
		Statement list[statement] `json:"Statement"`
	}
	if json.Unmarshal([]byte(text), &p) != nil {
		return nil, []string{"something: it does not read"}
	}
	for i, s := range p.Statement {
		if s.Effect != "Deny" || !s.about(role) {
			continue
		}
		name := s.ID
		if name == "" {
			name = fmt.Sprint("statement ", i+1)
		}
		for _, r := range rights {
			switch whole, part := s.covers(r); {
			case whole && s.certain(role):
				denied = append(denied, r.action+" ("+name+")")
			case whole:
				unsure = append(unsure, r.action+" ("+name+")")
			case part != "":
				unsure = append(unsure, r.action+" on "+part+" ("+name+")")
			}
		}
	}
	return denied, unsure
}

// list is one element or a list of them.
type list[T any] []T

// UnmarshalJSON reads both forms.
func (l *list[T]) UnmarshalJSON(b []byte) error {
	var one T
	if json.Unmarshal(b, &one) == nil {
		*l = list[T]{one}
		return nil
	}
	return json.Unmarshal(b, (*[]T)(l))
}

// principals returns who a statement names, by AWS ARN or account.
func principals(of any) []string {
	switch p := of.(type) {
	case string:
		return []string{p}
	case map[string]any:
		var all []string
		switch arns := p["AWS"].(type) {
		case string:
			all = append(all, arns)
		case []any:
			for _, arn := range arns {
				if text, ok := arn.(string); ok {
					all = append(all, text)
				}
			}
		}
		return all
	}
	return nil
}

// about reports whether the statement may be about the role.
func (s statement) about(role string) bool {
	if s.NotPrincipal != nil {
		return !slices.Contains(principals(s.NotPrincipal), role)
	}
	return role == "" || slices.ContainsFunc(principals(s.Principal), func(p string) bool {
		return p == "*" || p == role || p == accountOf(role) || p == "arn:aws:iam::"+accountOf(role)+":root"
	})
}

// certain reports whether the statement denies without a condition or an exception.
func (s statement) certain(role string) bool {
	named := slices.ContainsFunc(principals(s.Principal), func(p string) bool { return p == "*" || p == role && role != "" })
	return named && len(s.Condition) == 0 && s.NotPrincipal == nil && s.NotAction == nil && s.NotResource == nil
}

// covers reports whether the statement is about the right as a whole, or else about
// which part of what the policy works on.
func (s statement) covers(r permission) (whole bool, part string) {
	action := slices.ContainsFunc(s.Action, func(p string) bool { return wild(strings.ToLower(p), strings.ToLower(r.action)) })
	if s.NotAction != nil {
		action = !slices.ContainsFunc(s.NotAction, func(p string) bool { return wild(strings.ToLower(p), strings.ToLower(r.action)) })
	}
	switch {
	case !action:
		return false, ""
	case s.NotResource != nil:
		return !slices.ContainsFunc(s.NotResource, func(p string) bool { return wild(p, r.resource) }), ""
	case slices.ContainsFunc(s.Resource, func(p string) bool { return wild(p, r.resource) }):
		return true, ""
	}
	for _, p := range s.Resource {
		if strings.HasPrefix(p, r.below) && r.below != "" {
			return false, p
		}
	}
	return false, ""
}

// wild reports whether a pattern of a policy, in which * is any text and ? any one
// character, matches.
func wild(pattern, text string) bool {
	re := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	matched, err := regexp.MatchString("(?s)^"+re+"$", text)
	return err == nil && matched
}
