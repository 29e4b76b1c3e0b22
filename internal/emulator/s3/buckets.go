package s3

import (
	"net/http"
	"regexp"
	"slices"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// bucketName is what S3 takes for the name of a general purpose bucket:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// firstRegion is the one that needs no name, and where making a bucket that one
// has already is no error.
const firstRegion = "us-east-1"

func (s *Service) listBuckets(c *call) *wire.Error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var names []string
	for name := range s.buckets {
		names = append(names, name)
	}
	slices.Sort(names)
	d := &document{}
	d.WriteString("<Owner><ID>" + wire.Account + "</ID></Owner><Buckets>")
	for _, name := range names {
		d.WriteString("<Bucket>")
		d.element("Name", name)
		d.element("CreationDate", instant(s.buckets[name].created))
		d.WriteString("</Bucket>")
	}
	d.WriteString("</Buckets>")
	return c.reply("ListAllMyBucketsResult", d)
}

func (s *Service) createBucket(c *call) *wire.Error {
	if !bucketName.MatchString(c.name) {
		return wire.Bad("InvalidBucketName", "The specified bucket is not valid.")
	}
	var configuration struct {
		LocationConstraint string
		Location, Bucket   *struct{} // of directory buckets
	}
	if len(c.body) > 0 {
		if err := c.decode(&configuration); err != nil {
			return err
		}
	}
	region := configuration.LocationConstraint
	switch {
	case configuration.Location != nil || configuration.Bucket != nil:
		return wire.Unsupported("directory buckets")
	case region == firstRegion:
		return wire.Bad("InvalidLocationConstraint", "The specified location-constraint is not valid")
	case region == "":
		region = firstRegion
	}
	if region != c.region {
		return wire.Bad("IllegalLocationConstraintException",
			"The "+region+" location constraint is incompatible for the region specific endpoint this request was sent to.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken, ok := s.buckets[c.name]; ok && (region != firstRegion || taken.region != region) {
		return failed(http.StatusConflict, "BucketAlreadyOwnedByYou",
			"Your previous request to create the named bucket succeeded and you already own it.")
	} else if !ok {
		b := &bucket{service: s, name: c.name, region: region, created: c.now}
		if c.Header.Get("X-Amz-Bucket-Object-Lock-Enabled") == "true" {
			b.locking, b.versioning = true, enabled
		}
		s.buckets[c.name] = b
	}
	c.w.Header().Set("Location", "/"+c.name)
	return nil
}

func (s *Service) deleteBucket(c *call) *wire.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.bucket.mu.RLock()
	defer c.bucket.mu.RUnlock()
	if c.bucket.objects.Len() > 0 {
		return failed(http.StatusConflict, "BucketNotEmpty", "The bucket you tried to delete is not empty. You must delete all versions in the bucket.")
	}
	delete(s.buckets, c.name)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func headBucket(*call) *wire.Error { return nil }

func getBucketLocation(c *call) *wire.Error {
	d := &document{}
	if c.bucket.region != firstRegion {
		d.WriteString(c.bucket.region)
	}
	return c.reply("LocationConstraint", d)
}

func getBucketVersioning(c *call) *wire.Error {
	c.bucket.mu.RLock()
	defer c.bucket.mu.RUnlock()
	d := &document{}
	d.optional("Status", c.bucket.versioning)
	return c.reply("VersioningConfiguration", d)
}

func putBucketVersioning(c *call) *wire.Error {
	var configuration struct{ Status, MfaDelete string }
	if err := c.decode(&configuration); err != nil {
		return err
	}
	c.bucket.mu.Lock()
	defer c.bucket.mu.Unlock()
	switch {
	case configuration.MfaDelete != "" && configuration.MfaDelete != "Disabled":
		return wire.Unsupported("MFA delete")
	case configuration.Status != enabled && configuration.Status != suspended:
		return malformedXML()
	case configuration.Status == suspended && c.bucket.locking:
		return failed(http.StatusConflict, "InvalidBucketState",
			"An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.")
	}
	c.bucket.versioning = configuration.Status
	return nil
}

func getRequestPayment(c *call) *wire.Error {
	c.bucket.mu.RLock()
	defer c.bucket.mu.RUnlock()
	d := &document{}
	if c.bucket.requesterPays {
		d.element("Payer", "Requester")
	} else {
		d.element("Payer", "BucketOwner")
	}
	return c.reply("RequestPaymentConfiguration", d)
}

// getEncryption answers what holds for every bucket since January 2023, and can not
// be changed here.
func getEncryption(c *call) *wire.Error {
	d := &document{}
	d.WriteString("<Rule><ApplyServerSideEncryptionByDefault>")
	d.element("SSEAlgorithm", "AES256")
	d.WriteString("</ApplyServerSideEncryptionByDefault>")
	d.element("BucketKeyEnabled", "false")
	d.WriteString("</Rule>")
	return c.reply("ServerSideEncryptionConfiguration", d)
}

// getPublicAccessBlock answers what a bucket has that was made since April 2023, and
// can not be changed here.
func getPublicAccessBlock(c *call) *wire.Error {
	d := &document{}
	for _, setting := range []string{"BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"} {
		d.element(setting, "true")
	}
	return c.reply("PublicAccessBlockConfiguration", d)
}
