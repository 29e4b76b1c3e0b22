package conformance

// MotoVersion is the version of moto that the lists below are about. .ci/run reads
// this line and installs it.
const MotoVersion = "5.2.1"

// Moto returns a target for a moto server: an implementation in Python by other
// people, which keeps our reading of AWS's documentation honest. What it is known
// to do otherwise is listed by the names of the checks.
func Moto(endpoint string) Target {
	t := Loopback(endpoint)
	t.KnownDifferences, t.Unsteady = map[string]string{}, motoUnsteady
	for _, list := range []map[string]string{motoS3, motoSQS, motoDynamoDB} {
		for name, why := range list {
			t.KnownDifferences[name] = why
		}
	}
	return t
}

var motoUnsteady = map[string]string{
	"16 receivers x 1000 messages: each once, none lost":                                "a message goes to two receivers now and then, and it takes over a minute",
	"16 goroutines conditional UpdateItem: exactly one; 800 ADDs = 800":                 "two updates at once can both win, or one is lost",
	"16 transactions race on one condition: one wins":                                   "they are not isolated from each other: an internal error, or a second record",
	"transactions that conflict on one item are cancelled or applied, never both DB-08": "an internal error where they meet",
}

var motoS3 = map[string]string{
	"EncodingType=url honoured and echoed":                                                   "a key with a line break can not be put (404)",
	"KeyCount, MaxKeys 0, a token that is none":                                              "a foreign continuation token is an internal error",
	"ListObjects, the first form: Marker and NextMarker":                                     "a common prefix comes again on the next page",
	"regions: bucket made in eu-west-1 reports its region / redirect":                        "a bucket answers in every region",
	`key round trip "nl\nline"`:                                                              "a key with a line break can not be put (404)",
	`key round trip "cr\rx"`:                                                                 "a bulk delete takes the carriage return of a key for a line feed",
	"key of 1025 bytes refused":                                                              "accepted",
	"DeleteObjects 1000 ok, all reported, quiet reports none":                                "Quiet is ignored",
	"DeleteObjects 1001 refused (MalformedXML) S3-13":                                        "accepted",
	"DeleteObjects with no key, and with an empty one, refused S3-13":                        "accepted",
	"DeleteObjects per-key ETag mismatch -> Errors PreconditionFailed, others deleted S3-18": "the condition is ignored, and the object deleted",
	"a conditional delete of an absent key -> NoSuchKey, alone and in bulk S3-18":            "the condition is ignored in bulk",
	"DeleteObjects answers 200 with an error per key S3-01":                                  "the condition is ignored, and the objects deleted",
	"what is not offered is an error, never a silent 200":                                    "it offers more than Expunge uses",
	"versioned: delete -> marker; hidden from ListObjectsV2; Head 404 S3-15":                 "reading a marker is NoSuchVersion, not MethodNotAllowed",
	"versioned: suspended, a put and a delete take the null version's place":                 "suspending loses the earlier versions",
	"versioned: If-Match is judged on the current version; a marker is NoSuchKey S3-18":      "the condition is ignored in bulk, and markers pile up",
	"ListObjectVersions paging (KeyMarker/VersionIdMarker)":                                  "a key marker without a version does not skip the key's older versions",
	"ListObjectVersions goes on after the version it ended with is gone S3-25":               "it ends there, and the rest is never seen",
	"absent version: by id no error, a version id that is none is refused":                   "any text is taken for a version id",
	"Object Lock: GOVERNANCE retention denies, bypass allows; COMPLIANCE denies":             "a bypass destroys what is under COMPLIANCE",
	"Object Lock: a retention can be extended and not weakened":                              "it can be weakened",
	"Object Lock: the bucket's default retention protects what is put S3-17":                 "a put with the SDK's CRC32 is refused there",
	"Object Lock: not in a bucket without it":                                                "an object without a hold has one that is off",
	"DeleteObjects: CRC32 or MD5 accepted, no digest refused, a wrong one BadDigest S3-14":   "no digest is looked at",
	"DeleteObjects: a body that is no XML, or holds what no one knows, is MalformedXML":      "an internal error",
	"bucket policy: a denied prefix, alone and per key in bulk, until it is fixed":           "the code of a single denied delete is Forbidden",
	"bucket policy: a Deny of the caller by name":                                            "the code of a single denied delete is Forbidden",
	"bucket policy: a conditional delete needs GetObject too":                                "HEAD is not denied",
	"bucket policy: a denied version, and a denied list":                                     "a list is not denied",
	"bucket policy: mistakes are MalformedPolicy, and the old one stays":                     "any text is taken for a policy",
	"a bucket nobody configured: region, payer, encryption, public access, versions, locks":  "it has neither payer nor encryption",
	"PutObject: every checksum is verified and given back":                                   "none is verified",
	"PutObject: aws-chunked with a trailing checksum":                                        "the trailer is not verified, and a torn body is an internal error",
}

var motoSQS = map[string]string{
	"message attributes S/N/B round trip":                                          "an eleventh attribute is accepted",
	"attributes count for the size of a message":                                   "they do not",
	"characters outside XML 1.0 refused, others kept":                              "accepted",
	"MessageGroupId and AWSTraceHeader come back":                                  "a group id of any form is accepted",
	"SQ-16 an entry fails inside a good answer":                                    "one entry that is too long fails the batch",
	"ChangeMessageVisibility: 43200 is the most, absent and gone messages refused": "the handle of a message that is gone is invalid",
	"queue attributes checked, set and returned":                                   "their ranges are not checked",
	"queue attributes by name: counts, times, redrive, keys and policy":            "it knows no RedriveAllowPolicy",
	"PurgeQueue, DeleteQueue, ListQueues prefix":                                   "a second purge within a minute is accepted",
	"ListQueues in pages":                                                          "MaxResults is ignored",
	"DLQ message has DeadLetterQueueSourceArn":                                     "there is none",
	"RedrivePolicy validated (missing DLQ / bad maxReceiveCount refused)":          "an incomplete policy is an internal error",
	"RedriveAllowPolicy stored, returned and enforced":                             "it is neither kept nor enforced",
	"StartMessageMoveTask + ListMessageMoveTasks":                                  "not offered (an internal error)",
	"move tasks: one at a time, cancelled, refused":                                "not offered (an internal error)",
	"RD-03 a redriven message has a new id, time and count":                        "move tasks are not offered",
	"RD-04 ten attributes survive the DLQ and the redrive":                         "move tasks are not offered",
	"RD-05 a dead letter without an origin stays where it is":                      "move tasks are not offered",
}

var motoDynamoDB = map[string]string{
	"BatchWriteItem: 25 ok, mixed; 26 refused; duplicate key refused":                                 "26 are accepted",
	"numbers: 38 digits exact, ADD exact beyond 2^53, 1 = 1.0":                                        "a number is kept as it was written, a 39th digit included",
	"400 KB item limit (put and update)":                                                              "an item of 399 KB is refused",
	"consumed capacity: by the kilobyte, larger of before and after, index apart":                     "every call costs one",
	"conditions: AND/OR/NOT/parens/IN/BETWEEN/size/contains/<>/nested path/no spaces":                 "comparing values of two types is an internal error",
	"validation: unused/undefined names and values refused":                                           "an undefined name and an unknown function are internal errors",
	"validation: type errors (ADD on string, arithmetic on absent, empty set, empty key)":             "a set with twins and an index key of the wrong type are accepted",
	"TransactWriteItems: ClientRequestToken idempotent; other payload -> IdempotentParameterMismatch": "the token is ignored, and the transaction applied again",
	"TransactGetItems: in order, absent ones empty, projection":                                       "the projection is ignored",
	"Query: projection of nested paths":                                                               "two elements of one list come back as one",
	"Query validation: missing hash key / non-key attribute in key condition refused":                 "some conditions are internal errors",
}
