package evidence

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/expunge-aws/expunge/internal/failure"
)

// Dir keeps evidence as read-only files below one directory, under their names.
// It is safe for concurrent use, by several processes too.
//
// A file is written whole under a hidden temporary name and then linked to its
// own, which fails when the name is taken: so the name never shows half a
// document, and two writers can not both win. A writer that dies leaves at most
// a file whose name begins with a dot, which no list shows. Nothing is synced: a
// power cut may lose what was just written, so Dir is for the local environment
// and for exports. Symbolic links inside the directory are refused.
type Dir struct {
	// Hook decides the fate of every write, which it knows as "put". It is set
	// before the first use and may be called concurrently.
	Hook failure.Hook

	root *os.Root
}

// OpenDir opens the directory, and makes it when it is absent. The caller closes it.
func OpenDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, classify("open evidence", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, classify("open evidence", err)
	}
	return &Dir{root: root}, nil
}

// Close ends the use of the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Put keeps data under name. A name is written once: equal bytes again are nil,
// other bytes are failure.Invalid and change nothing.
func (d *Dir) Put(ctx context.Context, name string, data []byte) error {
	if err := d.checkCall(ctx, opPut, name); err != nil {
		return err
	}
	return d.Hook.Do("put", func() error { return d.put(name, data) })
}

func (d *Dir) put(name string, data []byte) (err error) {
	if err := d.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return classify(opPut, err)
	}
	temporary := ".put-" + rand.Text()
	defer func() {
		if e := d.root.Remove(temporary); err == nil && e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = classify(opPut, e)
		}
	}()
	if err := d.write(temporary, data); err != nil {
		return classify(opPut, err)
	}
	switch err := d.root.Link(temporary, name); {
	case errors.Is(err, fs.ErrExist):
		stored, err := d.read(name)
		if err != nil {
			return err
		}
		return settle(stored, data)
	default:
		return classify(opPut, err)
	}
}

func (d *Dir) write(name string, data []byte) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return cmp.Or(err, f.Close())
}

// Get returns the bytes kept under name, or failure.Absent.
func (d *Dir) Get(ctx context.Context, name string) ([]byte, error) {
	if err := d.checkCall(ctx, opGet, name); err != nil {
		return nil, err
	}
	return d.read(name)
}

func (d *Dir) read(name string) ([]byte, error) {
	f, err := d.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, absent()
	}
	if err != nil {
		return nil, classify(opGet, err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return data, classify(opGet, err)
}

// checkCall also refuses a name that leads through anything but directories and
// regular files. It guards against mistakes; that nothing outside the directory
// is reached, even while someone changes it, is the work of os.Root.
func (d *Dir) checkCall(ctx context.Context, op, name string) error {
	if err := checkCall(ctx, op, name); err != nil {
		return err
	}
	for at := name; at != "."; at = path.Dir(at) {
		info, err := d.root.Lstat(at)
		if err == nil && !info.IsDir() && !(at == name && info.Mode().IsRegular()) {
			return failure.New(failure.Invalid, op, "the name leads through a link or special file")
		}
	}
	return nil
}

// List returns, in ascending order of their bytes, at most limit names that
// begin with prefix and come after after; fewer only when there are no more.
func (d *Dir) List(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	if err := checkList(ctx, limit); err != nil {
		return nil, err
	}
	w := walk{root: d.root.FS(), prefix: prefix, after: after, limit: limit}
	if err := w.dir(ctx, ""); err != nil {
		return nil, classify(opList, err)
	}
	return w.names, nil
}

// walk visits names in the order of their bytes and skips what cannot match.
type walk struct {
	root          fs.FS
	prefix, after string
	limit         int
	names         []string
}

// dir visits one directory; within is "" or ends with a slash.
func (w *walk) dir(ctx context.Context, within string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := fs.ReadDir(w.root, cmp.Or(strings.TrimSuffix(within, "/"), "."))
	if err != nil {
		return err
	}
	var found []string
	for _, e := range entries {
		switch {
		case e.IsDir() && validPart(e.Name()):
			found = append(found, within+e.Name()+"/")
		case e.Type().IsRegular() && ValidName(within+e.Name()):
			found = append(found, within+e.Name())
		}
	}
	slices.Sort(found) // with their slash, directories sort as their contents do
	for _, name := range found {
		if len(w.names) == w.limit {
			return nil
		}
		if err := w.visit(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) visit(ctx context.Context, name string) error {
	if strings.HasSuffix(name, "/") {
		inside := strings.HasPrefix(name, w.prefix) || strings.HasPrefix(w.prefix, name)
		if inside && (name > w.after || strings.HasPrefix(w.after, name)) {
			return w.dir(ctx, name)
		}
		return nil
	}
	if strings.HasPrefix(name, w.prefix) && name > w.after {
		w.names = append(w.names, name)
	}
	return nil
}

// classify gives a file system's error its class. One that nobody knows may have
// taken effect: look before acting again.
func classify(op string, err error) error {
	switch {
	case err == nil, failure.Of(err) != failure.Bug:
		return err
	case errors.Is(err, fs.ErrPermission):
		return failure.Wrap(failure.Forbidden, op, err)
	case errors.Is(err, fs.ErrNotExist):
		return failure.Wrap(failure.Absent, op, err)
	default:
		return failure.Wrap(failure.Network, op, err)
	}
}
