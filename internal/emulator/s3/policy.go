package s3

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// A bucket's policy denies. Everybody may do everything here that no policy denies,
// so what an Allow grants can not be seen, and a statement with a condition could
// not be judged: both are refused when the policy is put, for a policy that is
// taken and not carried out would be believed. What is taken is carried out
// on every request that names the bucket or a key in it.
//
// As AWS does for the root user, everybody may read, replace and remove the policy
// itself: a mistake can be taken back.

// policy is a bucket's policy.
type policy struct {
	text string // as it was put
	deny []denial
}

// denial is a statement.
type denial struct {
	principals         []string // ARNs of users, or "*"
	actions, resources []*regexp.Regexp
}

// denies reports whether the policy keeps the caller from the action on the resource.
func (p *policy) denies(caller, action, resource string) bool {
	for _, d := range p.deny {
		who := slices.Contains(d.principals, "*") || slices.Contains(d.principals, caller)
		if who && matchesAny(d.actions, "s3:"+action) && matchesAny(d.resources, resource) {
			return true
		}
	}
	return false
}

func matchesAny(patterns []*regexp.Regexp, text string) bool {
	return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(text) })
}

// wildcards returns what matches a pattern of a policy, in which * is any text and
// ? any one character.
func wildcards(pattern, flags string) *regexp.Regexp {
	wild := strings.NewReplacer(`\*`, ".*", `\?`, ".")
	return regexp.MustCompile("(?s" + flags + ")^" + wild.Replace(regexp.QuoteMeta(pattern)) + "$") // it is one whatever the pattern
}

// The actions that a request here may need, by what they are done to:
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html
const (
	bucketActions = "DeleteBucket ListBucket ListBucketVersions GetBucketLocation GetBucketVersioning PutBucketVersioning " +
		"GetBucketObjectLockConfiguration PutBucketObjectLockConfiguration GetBucketRequestPayment GetEncryptionConfiguration GetBucketPublicAccessBlock"
	objectActions = "GetObject GetObjectVersion PutObject DeleteObject DeleteObjectVersion BypassGovernanceRetention " +
		"GetObjectTagging GetObjectVersionTagging PutObjectTagging PutObjectVersionTagging DeleteObjectTagging DeleteObjectVersionTagging " +
		"GetObjectLegalHold PutObjectLegalHold GetObjectRetention PutObjectRetention"
)

// actions returns what the caller must not be denied for the operation, nil for one
// that no policy is asked about, or that asks for each key by itself.
func (c *call) actions(operation string) []string {
	version := c.query.Get("versionId")
	switch operation {
	case "CreateBucket", "GetBucketPolicy", "PutBucketPolicy", "DeleteBucketPolicy", "DeleteObjects":
		return nil
	case "HeadBucket", "ListObjects", "ListObjectsV2":
		return []string{"ListBucket"}
	case "ListObjectVersions":
		return []string{"ListBucketVersions"}
	case "GetObjectLockConfiguration", "PutObjectLockConfiguration":
		return []string{strings.Replace(operation, "Object", "BucketObject", 1)}
	case "GetBucketEncryption":
		return []string{"GetEncryptionConfiguration"}
	case "GetPublicAccessBlock":
		return []string{"GetBucketPublicAccessBlock"}
	case "GetObject", "HeadObject":
		return []string{ofVersion("GetObject", version)}
	case "GetObjectTagging", "PutObjectTagging", "DeleteObjectTagging":
		return []string{ofVersion(operation, version)}
	case "PutObject":
		return c.uploadActions()
	case "PutObjectRetention":
		return bypassing([]string{operation}, c.bypasses())
	case "DeleteObject":
		return c.removal().actions()
	}
	return []string{operation}
}

// ofVersion is the action on a version that is named.
func ofVersion(action, version string) string {
	if version == "" {
		return action
	}
	return strings.Replace(action, "Object", "ObjectVersion", 1)
}

// bypassing adds the action that the header for getting past a retention needs.
func bypassing(actions []string, bypass bool) []string {
	if bypass {
		return append(actions, "BypassGovernanceRetention")
	}
	return actions
}

func (c *call) uploadActions() []string {
	actions := []string{"PutObject"}
	for header, action := range map[string]string{
		"If-Match": "GetObject", "X-Amz-Tagging": "PutObjectTagging",
		"X-Amz-Object-Lock-Legal-Hold": "PutObjectLegalHold", "X-Amz-Object-Lock-Mode": "PutObjectRetention",
	} {
		if c.Header.Get(header) != "" {
			actions = append(actions, action)
		}
	}
	return actions
}

// actions are those of one delete. Its condition on an ETag needs a look at the
// object; the condition that there is one does not:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-delete-enforce.html
func (r removal) actions() []string {
	actions := []string{ofVersion("DeleteObject", r.version)}
	if r.match != "" && r.match != "*" {
		actions = append(actions, "GetObject")
	}
	return bypassing(actions, r.bypass)
}

// denied returns the error of a call that the bucket's policy denies one of the
// actions on the key, or on the bucket when there is none.
func (c *call) denied(key string, actions ...string) *wire.Error {
	c.bucket.mu.RLock()
	p := c.bucket.policy
	c.bucket.mu.RUnlock()
	if p == nil {
		return nil
	}
	resource := resourcePrefix + c.name
	if key != "" {
		resource += "/" + key
	}
	caller := wire.UserARN(wire.Caller(c.Request))
	for _, action := range actions {
		if p.denies(caller, action, resource) {
			return accessDenied("User: " + caller + " is not authorized to perform: s3:" + action + ` on resource: "` + resource +
				`" with an explicit deny in a resource-based policy`)
		}
	}
	return nil
}

const resourcePrefix = "arn:aws:s3:::"

func getBucketPolicy(c *call) *wire.Error {
	c.bucket.mu.RLock()
	p := c.bucket.policy
	c.bucket.mu.RUnlock()
	if p == nil {
		return failed(http.StatusNotFound, "NoSuchBucketPolicy", "The bucket policy does not exist")
	}
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write([]byte(p.text)) // a client that has gone can not be told
	return nil
}

func putBucketPolicy(c *call) *wire.Error {
	p, err := readPolicy(c.name, c.body)
	if err == nil {
		c.setPolicy(p)
	}
	return err
}

func deleteBucketPolicy(c *call) *wire.Error {
	c.setPolicy(nil)
	return nil
}

func (c *call) setPolicy(p *policy) {
	c.bucket.mu.Lock()
	defer c.bucket.mu.Unlock()
	c.bucket.policy = p
	c.w.WriteHeader(http.StatusNoContent)
}
