package receipt

import (
	"strings"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

const suffix = ".jsonl.gz"

// Name returns where a document is kept:
//
//	<kind>/<run_id>/<page_id>/<sha256 of the stored bytes>.jsonl.gz
func Name(kind Kind, run job.RunID, page job.PageID, hash string) string {
	return string(kind) + "/" + string(run) + "/" + string(page) + "/" + hash + suffix
}

// Parts is what a document's name says.
type Parts struct {
	Kind   Kind
	RunID  job.RunID
	PageID job.PageID
	Hash   string // 64 lower-case hex digits
}

// ParseName takes a name apart. Anything that Name would not write is refused
// with failure.Invalid.
func ParseName(name string) (Parts, error) {
	fields := strings.Split(name, "/")
	if len(fields) == 4 {
		hash, ok := strings.CutSuffix(fields[3], suffix)
		p := Parts{Kind(fields[0]), job.RunID(fields[1]), job.PageID(fields[2]), hash}
		if ok && (p.Kind == Plan || p.Kind == Receipt) &&
			isHex(fields[1], 32) && isHex(fields[2], 32) && isHex(hash, 64) {
			return p, nil
		}
	}
	return Parts{}, failure.New(failure.Invalid, "parse evidence name", "not <kind>/<run>/<page>/<sha256>"+suffix)
}

func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}
