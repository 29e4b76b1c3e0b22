package region

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/expunge-aws/expunge/internal/ledger"
)

// checkTable holds the table to the ledger's own schema, and asks for what brings it
// back: 35 days of recovery, and no way to delete it by accident.
func checkTable(t template) []string {
	var p problems
	table, want := t.thing(kindTable, "Ledger"), ledger.Schema("any")
	var attributes []string
	for _, a := range want.AttributeDefinitions {
		attributes = append(attributes, aws.ToString(a.AttributeName)+" "+string(a.AttributeType))
	}
	var got []string
	for _, a := range values(table.at("AttributeDefinitions")) {
		got = append(got, word(at(a, "AttributeName"))+" "+word(at(a, "AttributeType")))
	}
	p.equal("the table's attributes", got, attributes)
	p.want(keyOf(table.at("KeySchema")) == keySchema(want.KeySchema), "the table's key is %s", keyOf(table.at("KeySchema")))
	p.want(len(values(table.at("GlobalSecondaryIndexes"))) == len(want.GlobalSecondaryIndexes), "the table has other indexes than the ledger reads")
	for i, index := range want.GlobalSecondaryIndexes {
		has := at(table.at("GlobalSecondaryIndexes"), i)
		p.want(word(at(has, "IndexName")) == aws.ToString(index.IndexName) && keyOf(at(has, "KeySchema")) == keySchema(index.KeySchema) &&
			word(at(has, "Projection", "ProjectionType")) == string(index.Projection.ProjectionType), "the index is %s", word(has))
	}
	p.want(table.word("BillingMode") == string(want.BillingMode), "the table is billed %s", table.word("BillingMode"))
	p.want(table.at("TimeToLiveSpecification") == nil, "rows of the ledger end by themselves")
	replicas := values(table.at("Replicas"))
	p.want(len(replicas) == 1 && word(at(replicas, 0, "Region")) == t.config.Region, "the table has other replicas than its region: %d", len(replicas))
	for _, replica := range replicas {
		recovery := at(replica, "PointInTimeRecoverySpecification")
		p.want(at(recovery, "PointInTimeRecoveryEnabled") == true && at(recovery, "RecoveryPeriodInDays") == 35.0, "the table can not be brought back: %s", word(recovery))
		p.want(at(replica, "DeletionProtectionEnabled") == true, "the table can be deleted")
	}
	return p
}

func keyOf(schema any) string {
	var parts []string
	for _, part := range values(schema) {
		parts = append(parts, word(at(part, "AttributeName"))+" "+word(at(part, "KeyType")))
	}
	return strings.Join(parts, ", ")
}

func keySchema(schema []types.KeySchemaElement) string {
	var parts []string
	for _, part := range schema {
		parts = append(parts, aws.ToString(part.AttributeName)+" "+string(part.KeyType))
	}
	return strings.Join(parts, ", ")
}

// checkEvidence asks for a bucket in which nothing is replaced and every access is on
// record.
func checkEvidence(t template) []string {
	var p problems
	bucket := t.thing(kindBucket, "Evidence")
	p.want(bucket.word("VersioningConfiguration", "Status") == "Enabled", "evidence has no versions")
	p.want(bucket.word("LoggingConfiguration", "DestinationBucketName") == "<AccessLogs>", "nobody notes who reads evidence")
	statements := t.on(bucket)
	p.want(slices.ContainsFunc(statements, func(s statement) bool {
		return s.effect == "Deny" && anyone(s.principal) && slices.Equal(s.actions, []string{"s3:PutObject"}) && slices.Equal(s.resources, []string{"<Evidence.Arn>/*"}) &&
			s.condition == `{"Bool":{"s3:ObjectCreationOperation":"true"},"Null":{"s3:if-none-match":"true"}}`
	}), "evidence can be replaced")
	for _, s := range statements {
		p.want(s.effect == "Deny", "the evidence's policy allows %q to %s", s.actions, s.principal)
	}
	p.want(bucket.word("LoggingConfiguration", "LogFilePrefix") == "evidence/", "the access logs lie under %q", bucket.word("LoggingConfiguration", "LogFilePrefix"))
	logs := t.thing(kindBucket, "AccessLogs")
	ends := values(logs.at("LifecycleConfiguration", "Rules"))
	p.want(len(ends) == 1 && at(ends[0], "ExpirationInDays") == 400.0 && word(at(ends[0], "Status")) == "Enabled", "access logs are kept %s, want a year and a month", word(ends))
	p.want(slices.ContainsFunc(t.on(logs), func(s statement) bool {
		return s.effect == "Allow" && s.principal == `{"Service":"logging.s3.amazonaws.com"}` && slices.Equal(s.actions, []string{"s3:PutObject"}) && strings.Contains(s.condition, "<Evidence.Arn>")
	}), "S3 may not write the access logs")
	return p
}

// checkEvidenceLife asks that evidence ends after its years, not before and not long
// after, and becomes cheaper in between without being out of reach (R142).
func checkEvidenceLife(t template) []string {
	var p problems
	kept := float64(t.config.EvidenceYears * 365)
	ends, cools, removed := 0, 0, 0
	for _, rule := range values(t.thing(kindBucket, "Evidence").at("LifecycleConfiguration", "Rules")) {
		if end := at(rule, "ExpirationInDays"); end != nil {
			ends++
			p.want(end == kept, "evidence ends after %v days, want %.0f", end, kept)
		}
		if after := at(rule, "NoncurrentVersionExpiration", "NoncurrentDays"); after != nil {
			removed++ // counted from the end: the first one is a delete marker
			p.want(after == 90.0, "evidence is kept for %v days after its end, want 90", after)
		}
		for _, way := range []string{"ExpirationDate", "NoncurrentVersionExpirationInDays", "ExpiredObjectDeleteMarker"} {
			p.want(at(rule, way) == nil, "evidence ends by %s", way)
		}
		for _, transition := range values(at(rule, "Transitions")) {
			cools++
			p.want(word(at(transition, "StorageClass")) == "GLACIER_IR" && at(transition, "TransitionInDays") == 90.0, "evidence moves to %s", word(transition))
			p.want(word(at(rule, "ObjectSizeGreaterThan")) == "23000", "evidence moves from %s bytes on: the colder class bills 128 KiB of each", word(at(rule, "ObjectSizeGreaterThan")))
		}
		p.want(word(at(rule, "Status")) == "Enabled", "a rule of the evidence's life is %s", word(at(rule, "Status")))
	}
	p.want(ends == 1 && removed == 1, "evidence or its old versions never end")
	p.want(strings.Contains(word(t.thing(kindBucket, "Evidence").at("LifecycleConfiguration")), `"AbortIncompleteMultipartUpload":{"DaysAfterInitiation":1}`), "parts of uploads that nobody ended are kept")
	p.want(cools == 1, "evidence stays in the dearest class")
	for _, of := range t.config.Policies {
		p.want(kept >= float64(of.RetentionDays), "evidence ends before what %s keeps", of.Name)
	}
	return p
}

// checkEvidenceLock asks for Object Lock where it is asked for, and nowhere else.
func checkEvidenceLock(t template) []string {
	var p problems
	bucket := t.thing(kindBucket, "Evidence")
	got := ""
	if bucket.at("ObjectLockEnabled") == true {
		retention := bucket.at("ObjectLockConfiguration", "Rule", "DefaultRetention")
		got = word(at(retention, "Mode")) + " " + word(at(retention, "Days"))
	}
	want := ""
	if t.config.ObjectLock != NotLocked {
		want = fmt.Sprintf("%s %d", strings.ToUpper(string(t.config.ObjectLock)), t.config.ObjectLockDays)
	}
	p.want(got == want, "evidence is locked %q, want %q", got, want)
	return p
}

// checkKey asks of the customer key that everybody who has to can use it: through a
// service whoever may use that service's resource, and alarms and logs as themselves.
func checkKey(t template) []string {
	var p problems
	keys := t.things(kindKey)
	if !t.config.CustomerKey {
		p.want(len(keys) == 0, "nobody asked for a key")
		return p
	}
	p.want(len(keys) == 1, "there are %d keys", len(keys))
	key := t.thing(kindKey, "Key")
	p.want(key.at("EnableKeyRotation") == true, "the key is never rotated")
	region := t.config.Region
	account := "arn:aws:iam::<AWS::AccountId>:root"
	want := map[string]string{
		`{"AWS":"` + account + `"}`:                       "",
		`{"Service":"cloudwatch.amazonaws.com"}`:          `{"StringEquals":{"aws:SourceAccount":"<AWS::AccountId>"}}`,
		`{"Service":"logs.` + region + `.amazonaws.com"}`: `{"ArnLike":{"kms:EncryptionContext:aws:logs:arn":"arn:aws:logs:` + region + `:<AWS::AccountId>:log-group:*"}}`,
	}
	for _, s := range t.on(key) {
		if anyone(s.principal) {
			var via []string
			for _, service := range []string{"dynamodb", "lambda", "s3", "sns", "sqs"} {
				via = append(via, `"`+service+"."+region+`.<AWS::URLSuffix>"`)
			}
			through := `{"StringEquals":{"kms:CallerAccount":"<AWS::AccountId>","kms:ViaService":[` + strings.Join(via, ",") + `]}}`
			p.want(s.condition == through, "the key can be used under %s, want %s", s.condition, through)
			p.want(!slices.ContainsFunc(s.actions, administers), "anyone may %q with the key", s.actions)
			want["anyone"] = "found"
			continue
		}
		condition, known := want[s.principal]
		p.want(known && s.condition == condition, "the key lets %s %q %s", s.principal, s.actions, s.condition)
		p.want(s.principal != `{"Service":"cloudwatch.amazonaws.com"}` || slices.Equal(s.actions, []string{"kms:Decrypt", "kms:GenerateDataKey*"}), "CloudWatch may %q with the key", s.actions)
		want[s.principal] = "found"
	}
	for who, state := range want {
		p.want(state == "found", "the key does not let %s use it", who)
	}
	p.want(want["anyone"] == "found", "the key can not be used through any service")
	return p
}

// administers answers whether an action changes a key.
func administers(action string) bool {
	for _, use := range []string{"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*", "kms:CreateGrant"} {
		if action == use {
			return false
		}
	}
	return true
}
