package s3

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// tag is one of an object's tags.
type tag struct{ Key, Value string }

// The limits on tags:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html
const (
	maxTags     = 10
	maxTagKey   = 128
	maxTagValue = 256
)

func checkTags(tags []tag) *wire.Error {
	if len(tags) > maxTags {
		return wire.Bad("BadRequest", "Object tags cannot be greater than 10")
	}
	seen := map[string]bool{}
	for _, t := range tags {
		switch {
		case t.Key == "" || utf8.RuneCountInString(t.Key) > maxTagKey:
			return wire.Bad("InvalidTag", "The TagKey you have provided is invalid")
		case utf8.RuneCountInString(t.Value) > maxTagValue:
			return wire.Bad("InvalidTag", "The TagValue you have provided is invalid")
		case seen[t.Key]:
			return wire.Bad("InvalidTag", "Cannot provide multiple Tags with the same key")
		}
		seen[t.Key] = true
	}
	return nil
}

// headerTags reads the tags of an upload, which its header gives as a query.
func headerTags(header string) ([]tag, *wire.Error) {
	query, err := url.ParseQuery(header)
	if err != nil {
		return nil, wire.Bad("InvalidArgument",
			"The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.")
	}
	var tags []tag
	for key, values := range query {
		for _, value := range values {
			tags = append(tags, tag{key, value})
		}
	}
	slices.SortFunc(tags, func(a, b tag) int { return strings.Compare(a.Key, b.Key) })
	return tags, checkTags(tags)
}

func getTagging(c *call) *wire.Error {
	v, _, err := c.bucket.read(c.key, c.query.Get("versionId"))
	if err != nil {
		return err
	}
	d := &document{}
	d.WriteString("<TagSet>")
	for _, t := range v.attributes().tags {
		d.WriteString("<Tag>")
		d.element("Key", exact(t.Key))
		d.element("Value", exact(t.Value))
		d.WriteString("</Tag>")
	}
	d.WriteString("</TagSet>")
	return c.reply("Tagging", d)
}

func putTagging(c *call) *wire.Error {
	var asked struct {
		TagSet struct {
			Tags []tag `xml:"Tag"`
		}
	}
	if err := c.decode(&asked); err != nil {
		return err
	}
	if err := checkTags(asked.TagSet.Tags); err != nil {
		return err
	}
	return c.change(func(a *attributes) *wire.Error {
		a.tags = asked.TagSet.Tags
		return nil
	})
}

func deleteTagging(c *call) *wire.Error {
	err := c.change(func(a *attributes) *wire.Error {
		a.tags = nil
		return nil
	})
	if err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}
