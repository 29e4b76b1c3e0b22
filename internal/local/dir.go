package local

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/job"
)

// Directory is a person's own files read as a bucket: a relative path is a key, a
// modification time is LastModified. Contents are never opened.
type Directory struct {
	Items []job.Item
	// Refused are names that can be no key, or that could not be read, with why.
	Refused []RefusedName
	// Skipped counts symbolic links and special files; links are not followed.
	Skipped int
}

// RefusedName is a file or folder that did not become an item.
type RefusedName struct{ Path, Why string }

// ReadDirectory reads the references of every regular file below root. progress
// is told the number of files now and then.
func ReadDirectory(root string, progress func(files int)) (Directory, error) {
	var d Directory
	real, err := filepath.EvalSymlinks(root) // the root is what the user named; only links inside are not followed
	if err != nil {
		return d, err
	}
	if info, err := os.Stat(real); err != nil {
		return d, err
	} else if !info.IsDir() {
		return d, &fs.PathError{Op: "read", Path: root, Err: errors.New("not a directory")}
	}
	err = filepath.WalkDir(real, func(path string, entry fs.DirEntry, err error) error {
		rel, rerr := filepath.Rel(real, path)
		if rerr != nil {
			return rerr
		}
		if err != nil && rel == "." {
			return err
		}
		d.visit(filepath.ToSlash(rel), entry, err)
		if n := len(d.Items); n > 0 && n%50_000 == 0 && entry.Type().IsRegular() {
			progress(n)
		}
		return nil
	})
	return d, err
}

func (d *Directory) visit(key string, entry fs.DirEntry, err error) {
	switch {
	case err != nil:
		d.Refused = append(d.Refused, RefusedName{key, "can not be read"})
	case entry.IsDir():
	case !entry.Type().IsRegular():
		d.Skipped++
	case !utf8.ValidString(key):
		d.Refused = append(d.Refused, RefusedName{key, "the name is not valid UTF-8"})
	case len(key) > artifact.MaxKeyBytes:
		d.Refused = append(d.Refused, RefusedName{key, "the name is longer than 1,024 bytes"})
	default:
		d.add(key, entry)
	}
}

func (d *Directory) add(key string, entry fs.DirEntry) {
	info, err := entry.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist): // gone since it was listed, as objects go too
	case err != nil:
		d.Refused = append(d.Refused, RefusedName{key, "can not be read"})
	default:
		item := job.Item{Key: key, Size: info.Size(), Modified: info.ModTime().UTC()}
		item.ETag = etag(item)
		d.Items = append(d.Items, item)
	}
}

// etag stands in for the hash of contents that nobody opens: it changes with the
// path, the size and the time.
func etag(item job.Item) string {
	h := sha256.New()
	var n [16]byte
	binary.BigEndian.PutUint64(n[:8], uint64(item.Size)) //nolint:gosec // only its bits are hashed
	binary.BigEndian.PutUint64(n[8:], uint64(item.Modified.UnixNano()))
	h.Write(n[:])
	h.Write([]byte(item.Key))
	return hex.EncodeToString(h.Sum(nil)[:16])
}
