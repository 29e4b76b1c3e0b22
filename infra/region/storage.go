package region

import (
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/expunge-aws/expunge/internal/contract"
)

const (
	// coldAfterDays is when evidence moves to Glacier Instant Retrieval: redrives and
	// holds still read it before, and every class above it costs more.
	coldAfterDays = 90
	// coldAboveBytes is from which size on that saves money. The class bills 128 KiB
	// at least: below 23 kB the first class costs less ($0.023 against $0.004 a GB).
	coldAboveBytes = 23_000
	// removedDays is for how long evidence that ended, or that somebody removed, can be
	// brought back.
	removedDays = 90
	// accessLogDays is how long the evidence bucket's access logs are kept: a year and
	// a month, so that a yearly audit finds a whole year.
	accessLogDays = 400
	// recoveryDays is the longest that point-in-time recovery goes back; its price does
	// not depend on it: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/PointInTimeRecovery_Howitworks.html
	recoveryDays = 35
)

// newLedger declares the ledger's table. No attribute has a time to live: nothing that
// proves anything may end by itself.
func (p *parts) newLedger() awsdynamodb.TableV2 {
	encryption := awsdynamodb.TableEncryptionV2_DynamoOwnedKey()
	if p.Key != nil {
		encryption = awsdynamodb.TableEncryptionV2_CustomerManagedKey(p.Key, nil)
	}
	attribute := func(name string, of awsdynamodb.AttributeType) *awsdynamodb.Attribute {
		return &awsdynamodb.Attribute{Name: &name, Type: of}
	}
	return awsdynamodb.NewTableV2(p.Stack, jsii.String("Ledger"), &awsdynamodb.TablePropsV2{
		PartitionKey: attribute(contract.LedgerPartitionKey, awsdynamodb.AttributeType_STRING),
		SortKey:      attribute(contract.LedgerSortKey, awsdynamodb.AttributeType_BINARY),
		GlobalSecondaryIndexes: &[]*awsdynamodb.GlobalSecondaryIndexPropsV2{{
			IndexName:      jsii.String(contract.LedgerIndex),
			PartitionKey:   attribute(contract.LedgerIndexKey, awsdynamodb.AttributeType_STRING),
			SortKey:        attribute(contract.LedgerIndexSortKey, awsdynamodb.AttributeType_STRING),
			ProjectionType: awsdynamodb.ProjectionType_KEYS_ONLY,
		}},
		Billing:            awsdynamodb.Billing_OnDemand(nil),
		Encryption:         encryption,
		DeletionProtection: jsii.Bool(true),
		RemovalPolicy:      awscdk.RemovalPolicy_RETAIN,
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true), RecoveryPeriodInDays: jsii.Number(recoveryDays),
		},
	})
}

// newEvidence declares the bucket of plans, receipts and manifests, and the one of its
// access logs.
func (p *parts) newEvidence() awss3.Bucket {
	logs := awss3.NewBucket(p.Stack, jsii.String("AccessLogs"), &awss3.BucketProps{
		Encryption:        awss3.BucketEncryption_S3_MANAGED, // S3 delivers access logs to no other: https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(), EnforceSSL: jsii.Bool(true), MinimumTLSVersion: jsii.Number(1.2),
		RemovalPolicy:  awscdk.RemovalPolicy_RETAIN,
		LifecycleRules: &[]*awss3.LifecycleRule{{Id: jsii.String("end"), Expiration: awscdk.Duration_Days(jsii.Number(accessLogDays))}},
	})
	props := &awss3.BucketProps{
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(), EnforceSSL: jsii.Bool(true), MinimumTLSVersion: jsii.Number(1.2),
		Versioned: jsii.Bool(true), RemovalPolicy: awscdk.RemovalPolicy_RETAIN,
		ServerAccessLogsBucket: logs, ServerAccessLogsPrefix: jsii.String("evidence/"),
		LifecycleRules: p.evidenceLife(),
	}
	if p.Key != nil {
		props.Encryption, props.EncryptionKey, props.BucketKeyEnabled = awss3.BucketEncryption_KMS, p.Key, jsii.Bool(true)
	}
	locked := awscdk.Duration_Days(jsii.Number(float64(p.ObjectLockDays)))
	switch p.ObjectLock {
	case NotLocked:
	case Governance:
		props.ObjectLockEnabled, props.ObjectLockDefaultRetention = jsii.Bool(true), awss3.ObjectLockRetention_Governance(locked)
	case Compliance:
		props.ObjectLockEnabled, props.ObjectLockDefaultRetention = jsii.Bool(true), awss3.ObjectLockRetention_Compliance(locked)
	}
	bucket := awss3.NewBucket(p.Stack, jsii.String("Evidence"), props)
	sizeAsText(bucket)
	bucket.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("NeverReplaced"), Effect: awsiam.Effect_DENY, Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
		Actions: list("s3:PutObject"), Resources: &[]*string{bucket.ArnForObjects(jsii.String("*"))},
		// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
		Conditions: &map[string]any{"Null": map[string]any{"s3:if-none-match": "true"}, "Bool": map[string]any{"s3:ObjectCreationOperation": "true"}},
	}))
	return bucket
}

// evidenceLife moves evidence to a colder class and ends it after its years (R142). In a
// bucket with versions the end is a delete marker, and the days of an old version count
// from there: with the same years for both, evidence would be kept for twice of them.
func (p *parts) evidenceLife() *[]*awss3.LifecycleRule {
	kept := awscdk.Duration_Days(jsii.Number(float64(p.EvidenceYears * daysOfYear)))
	return &[]*awss3.LifecycleRule{
		{
			Id: jsii.String("cold"), ObjectSizeGreaterThan: jsii.Number(coldAboveBytes),
			Transitions: &[]*awss3.Transition{{
				StorageClass: awss3.StorageClass_GLACIER_INSTANT_RETRIEVAL(), TransitionAfter: awscdk.Duration_Days(jsii.Number(coldAfterDays)),
			}},
		},
		{
			Id: jsii.String("end"), Expiration: kept, NoncurrentVersionExpiration: awscdk.Duration_Days(jsii.Number(removedDays)),
			AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(jsii.Number(1)),
		},
	}
}

// sizeAsText writes the rule's size as CloudFormation's schema has it. The construct
// writes a number, which every check of the template complains about.
func sizeAsText(bucket awss3.Bucket) {
	if raw, ok := bucket.Node().DefaultChild().(awss3.CfnBucket); ok {
		raw.AddPropertyOverride(jsii.String("LifecycleConfiguration.Rules.0.ObjectSizeGreaterThan"), jsii.String(strconv.Itoa(coldAboveBytes)))
	}
}

// newKey declares the customer key, if one is asked for. It works like a key that AWS
// manages: whoever may use a queue, the table or the bucket may use the key through it,
// so that no role needs a permission of its own and none can be forgotten.
func (p *parts) newKey() awskms.IKey {
	if !p.CustomerKey {
		return nil
	}
	key := awskms.NewKey(p.Stack, jsii.String("Key"), &awskms.KeyProps{
		Description: jsii.String("Expunge " + p.Config.Stage), EnableKeyRotation: jsii.Bool(true), RemovalPolicy: awscdk.RemovalPolicy_RETAIN,
	})
	use := list("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*", "kms:CreateGrant")
	var via []string
	for _, service := range []string{"dynamodb", "lambda", "s3", "sns", "sqs"} {
		via = append(via, service+"."+p.Config.Region+"."+*p.UrlSuffix())
	}
	key.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("ThroughTheServices"), Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
		Actions: use, Resources: list("*"),
		Conditions: &map[string]any{"StringEquals": map[string]any{"kms:CallerAccount": p.Account(), "kms:ViaService": via}},
	}), nil)
	// CloudWatch publishes to the topics, and Logs writes the groups, as themselves.
	key.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("AlarmsMayPublish"), Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Actions: list("kms:Decrypt", "kms:GenerateDataKey*"), Resources: list("*"),
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": p.Account()}},
	}), nil)
	key.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("LogGroups"), Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("logs."+p.Config.Region+".amazonaws.com"), nil)},
		Actions: use, Resources: list("*"),
		Conditions: &map[string]any{"ArnLike": map[string]any{"kms:EncryptionContext:aws:logs:arn": p.FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("logs"), Resource: jsii.String("log-group"), ResourceName: jsii.String("*"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
		})}},
	}), nil)
	return key
}
