package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

func s3Keys() []check[*s3Suite] {
	var checks []check[*s3Suite]
	for _, key := range []string{
		"plain", "sp ace", "é/日本語/😀", "plus+plus", "pct%41%2F", "amp&lt<>\"'", "nl\nline", "tab\tx", "cr\rx", "ctl\x01x",
		"dbl//slash", "trail/", "/lead", "dot/./x", "up/../x", "q?x=1#f", "back\\slash", "semi;colon:@=,!*()'", "~tilde^`{|}",
		strings.Repeat("k", 1024),
	} {
		checks = append(checks, check[*s3Suite]{fmt.Sprintf("key round trip %.24q", key), func(t *testing.T, c *s3Suite) { s3RoundTrip(t, c, key) }})
	}
	return append(checks,
		check[*s3Suite]{"keys a, a/ and a/b coexist", s3Coexist},
		check[*s3Suite]{"key of 1025 bytes refused", s3TooLong},
		check[*s3Suite]{"a control character is not U+FFFD: single delete takes exactly its key S3-05", s3ControlCharacters},
		check[*s3Suite]{"plus, percent and space are different keys S3-07", s3Lookalikes},
		check[*s3Suite]{"a folder marker goes without its children, and the other way round S3-09", s3FolderMarker},
		check[*s3Suite]{"two Unicode forms of a letter are two keys S3-12", s3UnicodeForms},
	)
}

// s3InBulk reports whether the SDK can name the key in a bulk delete: its XML
// writer puts U+FFFD in the place of what XML 1.0 forbids.
func s3InBulk(key string) bool {
	return strings.IndexFunc(key, func(r rune) bool {
		return r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == '\ufffe' || r == '\uffff' || r == utf8.RuneError
	}) < 0
}

// s3RoundTrip puts, gets, lists and deletes a key, beside keys for which a server
// that cleans paths would take it.
func s3RoundTrip(t *testing.T, c *s3Suite, key string) {
	b := c.bucket(t)
	decoys := []string{"decoy", "dbl/slash", "trail", "lead", "dot/x", "x", "pctA/"}
	for _, d := range decoys {
		c.put(t, b, d, "decoy")
	}
	c.put(t, b, key, "body")
	if got := c.body(t, b, key, nil); got != "body" {
		t.Errorf("body %q", got)
	}
	if !slices.Contains(c.keys(t, b), key) {
		t.Errorf("not listed among %.200q", c.keys(t, b))
	}
	if s3InBulk(key) {
		out := must(c.bulk(t.Context(), b, false, s3Object(key)))(t)
		if len(out.Errors) > 0 || len(out.Deleted) != 1 || *out.Deleted[0].Key != key {
			t.Errorf("bulk delete: %d errors, deleted %v", len(out.Errors), out.Deleted)
		}
	} else {
		must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: &key}))(t)
	}
	if c.has(t, b, key) {
		t.Error("still there after the delete")
	}
	slices.Sort(decoys)
	c.wantKeys(t, b, decoys...)
}

func s3Coexist(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	keys := []string{"a", "a/", "a/b"}
	for _, k := range keys {
		c.put(t, b, k, "v"+k)
	}
	c.wantKeys(t, b, keys...)
	for _, k := range keys {
		if got := c.body(t, b, k, nil); got != "v"+k {
			t.Errorf("%q holds %q", k, got)
		}
	}
}

func s3TooLong(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	key := strings.Repeat("k", 1025)
	_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b, Key: &key, Body: strings.NewReader("x")})
	wantCode(t, err, "KeyTooLongError")
	c.wantKeys(t, b)
}

func s3ControlCharacters(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	keys := []string{"a\u0001.csv", "a\u0010.csv", "a\ufffd.csv", "a\ufffe.csv"}
	for _, k := range keys {
		c.put(t, b, k, "x")
	}
	must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: &keys[0]}))(t)
	c.wantKeys(t, b, keys[1:]...)
}

func s3Lookalikes(t *testing.T, c *s3Suite) {
	keys := []string{"100%.csv", "a b", "a%2Bb", "a+b", "run=2026-06-26T00:00:00+00:00/f"}
	for i, victim := range keys {
		b := c.bucket(t)
		for _, k := range keys {
			c.put(t, b, k, "x")
		}
		out := must(c.bulk(t.Context(), b, false, s3Object(victim)))(t)
		if len(out.Deleted) != 1 || *out.Deleted[0].Key != victim {
			t.Errorf("deleted %v, want %q", out.Deleted, victim)
		}
		c.wantKeys(t, b, slices.Concat(keys[:i], keys[i+1:])...)
	}
}

func s3FolderMarker(t *testing.T, c *s3Suite) {
	for victim, left := range map[string]string{"t1/": "t1/a", "t1/a": "t1/"} {
		b := c.bucket(t)
		c.put(t, b, "t1/", "")
		c.put(t, b, "t1/a", "x")
		must(c.bulk(t.Context(), b, false, s3Object(victim)))(t)
		c.wantKeys(t, b, left)
	}
}

func s3UnicodeForms(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	composed, decomposed := "caf\u00e9.csv", "cafe\u0301.csv"
	c.put(t, b, composed, "x")
	c.put(t, b, decomposed, "x")
	must(c.bulk(t.Context(), b, false, s3Object(decomposed)))(t)
	c.wantKeys(t, b, composed)
}
