package s3

import (
	"errors"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// maxPolicy is the longest policy in bytes:
// https://docs.aws.amazon.com/general/latest/gr/s3.html
const maxPolicy = 20 << 10

// policyDocument is a bucket's policy as it is written.
type policyDocument struct {
	Version   string
	ID        string         `json:"Id"`
	Statement jsontext.Value // one, or a list
}

// statement is one as it is written. What else it may hold on AWS makes the policy
// one that is not offered.
type statement struct {
	Sid, Effect      string
	Principal        jsontext.Value // "*", or an object
	Action, Resource several
}

// several is what a policy writes as one text or as a list.
type several []string

// UnmarshalJSON implements json.Unmarshaler.
func (s *several) UnmarshalJSON(text []byte) error {
	if jsontext.Value(text).Kind() == '[' {
		return json.Unmarshal(text, (*[]string)(s))
	}
	*s = make([]string, 1)
	return json.Unmarshal(text, &(*s)[0])
}

func malformedPolicy(message string) *wire.Error { return wire.Bad("MalformedPolicy", message) }

// notCarriedOut refuses what is good on AWS and would only be kept here.
func notCarriedOut(what string) *wire.Error {
	return wire.Unsupported(what + " in a bucket policy: it knows the Deny of actions on the bucket or its keys, to everybody or to users by their access keys")
}

// readPolicy reads the policy of the bucket. Its mistakes are told as AWS tells them.
func readPolicy(bucket string, text []byte) (*policy, *wire.Error) {
	if len(text) > maxPolicy {
		return nil, malformedPolicy("The policy is longer than 20 KB")
	}
	var written policyDocument
	if err := strict(text, &written); err != nil {
		return nil, err
	}
	if v := written.Version; v != "" && v != "2012-10-17" && v != "2008-10-17" {
		return nil, malformedPolicy("The policy must contain a valid version string")
	}
	statements := make([]statement, 1)
	var err *wire.Error
	switch written.Statement.Kind() {
	case '[':
		err = strict(written.Statement, &statements)
	case '{':
		err = strict(written.Statement, &statements[0])
	default:
		statements = nil
	}
	if err == nil && len(statements) == 0 {
		err = malformedPolicy("Missing required field Statement")
	}
	p := &policy{text: string(text)}
	for i := 0; i < len(statements) && err == nil; i++ {
		var d denial
		d, err = statements[i].read(bucket)
		p.deny = append(p.deny, d)
	}
	return p, err
}

// strict decodes JSON that names nothing twice and nothing unknown.
func strict(text []byte, into any) *wire.Error {
	err := json.Unmarshal(text, into, json.RejectUnknownMembers(true))
	var at *json.SemanticError
	switch {
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &at):
		return notCarriedOut(at.JSONPointer.LastToken())
	case err != nil:
		return malformedPolicy("Policies must be valid JSON and the first byte must be '{'")
	}
	return nil
}

func (s *statement) read(bucket string) (d denial, err *wire.Error) {
	switch {
	case s.Effect == "Allow": // everybody may do everything anyway
		return d, notCarriedOut("Allow")
	case s.Effect != "Deny":
		return d, malformedPolicy("Invalid effect: " + s.Effect)
	case len(s.Action) == 0:
		return d, malformedPolicy("Missing required field Action")
	case len(s.Resource) == 0:
		return d, malformedPolicy("Missing required field Resource")
	}
	if d.principals, err = readPrincipals(s.Principal); err != nil {
		return d, err
	}
	onBucket, onKeys := false, false
	for _, resource := range s.Resource {
		if err := checkResource(resource, bucket); err != nil {
			return d, err
		}
		keys := strings.Contains(resource, "/")
		onBucket, onKeys = onBucket || !keys, onKeys || keys
		d.resources = append(d.resources, wildcards(resource, ""))
	}
	for _, action := range s.Action {
		pattern := wildcards(action, "i")
		if err := checkAction(action, pattern, onBucket, onKeys); err != nil {
			return d, err
		}
		d.actions = append(d.actions, pattern)
	}
	return d, nil
}

// userARN is what a principal can be here; AWS takes no patterns either.
var userARN = regexp.MustCompile(`^arn:aws:iam::` + wire.Account + `:user/[^*?]+$`)

func readPrincipals(text jsontext.Value) ([]string, *wire.Error) {
	invalid := malformedPolicy("Invalid principal in policy")
	switch text.Kind() {
	case '"':
		if string(text) != `"*"` {
			return nil, invalid
		}
		return []string{"*"}, nil
	case '{':
	default:
		return nil, malformedPolicy("Missing required field Principal")
	}
	var written struct {
		AWS several
	}
	if err := strict(text, &written); err != nil {
		return nil, err
	}
	for _, principal := range written.AWS {
		switch {
		case principal == "*", userARN.MatchString(principal):
		case strings.HasSuffix(principal, ":root"), strings.Contains(principal, ":role/"), principal == wire.Account:
			return nil, notCarriedOut("the principal " + principal)
		default:
			return nil, invalid
		}
	}
	if len(written.AWS) == 0 {
		return nil, invalid
	}
	return written.AWS, nil
}

// checkResource wants the bucket itself, or keys in it.
func checkResource(resource, bucket string) *wire.Error {
	of, key, _ := strings.Cut(strings.TrimPrefix(resource, resourcePrefix), "/")
	switch {
	case strings.ContainsAny(of, "*?"):
		return notCarriedOut("the resource " + resource + ", which has a pattern for the bucket,")
	case strings.Contains(key, "${"):
		return notCarriedOut("the resource " + resource + ", which has a variable,")
	case !strings.HasPrefix(resource, resourcePrefix) || of != bucket:
		return malformedPolicy("Policy has invalid resource")
	}
	return nil
}

// checkAction wants an action, or a pattern of some, that a request here may need on
// what the statement is about.
func checkAction(action string, pattern *regexp.Regexp, onBucket, onKeys bool) *wire.Error {
	bucket, keys := covers(pattern, bucketActions), covers(pattern, objectActions)
	switch {
	case action != "*" && !strings.HasPrefix(strings.ToLower(action), "s3:"):
		return malformedPolicy("Policy has invalid action")
	case !bucket && !keys:
		return notCarriedOut("the action " + action + ", which keeps nobody from anything here,")
	case !(bucket && onBucket) && !(keys && onKeys):
		return malformedPolicy("Action does not apply to any resource(s) in statement")
	}
	return nil
}

func covers(pattern *regexp.Regexp, actions string) bool {
	for action := range strings.FieldsSeq(actions) {
		if pattern.MatchString("s3:" + action) {
			return true
		}
	}
	return false
}
