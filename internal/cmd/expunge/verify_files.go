package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// listed is how many names one call of a listing returns.
const listed = 1000

// listEvidence returns the names of all that lies under a run, ascending by kind.
func listEvidence(ctx context.Context, store documents, run job.RunID) (names []string, err error) {
	for _, prefix := range receipt.Prefixes(run) {
		for after := ""; ; {
			some, err := store.List(ctx, prefix, after, listed)
			if err != nil {
				return nil, err
			}
			names = append(names, some...)
			if len(some) < listed {
				break
			}
			after = some[len(some)-1]
		}
	}
	return names, nil
}

// promises returns the names of the documents that the rows of a run's pages name.
func promises(ctx context.Context, r records, run job.RunID) (names []string, err error) {
	err = pagesOf(ctx, r, run, func(p job.Page) error {
		if p.Receipt != "" {
			names = append(names, receipt.Name(receipt.Receipt, run, p.ID, p.Receipt))
		}
		if p.Intent.Plan != "" {
			names = append(names, receipt.Name(receipt.Plan, run, p.ID, p.Intent.Plan))
		}
		return nil
	})
	return names, err
}

// folder is a local folder with evidence. No name and no link leads out of it.
type folder struct {
	root *os.Root
	path string
}

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, wrong("the folder " + dir + " can not be opened: " + reasonOf(err))
	}
	return &folder{root, dir}, nil
}

// reasonOf is why a file could not be used, without its path.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// maxDocument caps what is read of one file: the text of the largest manifest fits,
// and it is compressed besides.
const maxDocument = 1 << 30

// read returns a document, failure.Absent when there is none.
func (f *folder) read(name string) ([]byte, error) {
	file, err := f.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure.New(failure.Absent, "read "+f.path, "no such file")
	}
	if err != nil {
		return nil, wrong(name + " in " + f.path + " can not be read: " + reasonOf(err))
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	switch {
	case err != nil:
		return nil, wrong(name + " in " + f.path + " can not be read: " + reasonOf(err))
	case len(data) > maxDocument:
		return nil, wrong(name + " in " + f.path + " is larger than any evidence")
	}
	return data, nil
}

// names returns the files below the folders, and strange what is neither a file nor
// a folder: a link may lead to other bytes tomorrow.
func (f *folder) names(folders []string) (names, strange []string, err error) {
	for _, below := range folders {
		below = path.Clean(below)
		err := fs.WalkDir(f.root.FS(), below, func(name string, e fs.DirEntry, err error) error {
			switch {
			case err != nil && name == below && errors.Is(err, fs.ErrNotExist):
				return fs.SkipDir // a run may have none of the kind
			case err != nil:
				return wrong(name + " in " + f.path + " can not be read: " + reasonOf(err))
			case e.IsDir():
			case e.Type().IsRegular():
				names = append(names, name)
			default:
				strange = append(strange, name)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return names, strange, nil
}

// write keeps a document. Other bytes under its name are refused: the folder would
// hold evidence of two origins.
func (f *folder) write(name string, data []byte) error {
	if stored, err := f.read(name); err == nil && bytes.Equal(stored, data) {
		return nil
	}
	if err := f.root.MkdirAll(path.Dir(name), 0o750); err != nil {
		return wrong(name + " can not be kept in " + f.path + ": " + reasonOf(err))
	}
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if errors.Is(err, fs.ErrExist) {
		return wrong(f.path + " holds other bytes under " + name + ": give an empty folder")
	}
	if err != nil {
		return wrong(name + " can not be kept in " + f.path + ": " + reasonOf(err))
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err != nil {
		return wrong(name + " can not be kept in " + f.path + ": " + reasonOf(err))
	}
	return nil
}

// loaders is how many documents are downloaded at a time.
const loaders = 16

// saveEvidence keeps the documents in a folder. The first error ends it.
func saveEvidence(ctx context.Context, dir string, names []string, read func(string) ([]byte, error)) (*folder, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, wrong("the folder " + dir + " can not be made: " + reasonOf(err))
	}
	f, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan string)
	var group sync.WaitGroup
	for range loaders {
		group.Go(func() {
			for name := range queue {
				data, err := read(name)
				if err == nil {
					err = f.write(name, data)
				}
				if err != nil {
					stop(err)
					return
				}
			}
		})
	}
	for _, name := range names {
		select {
		case queue <- name:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(queue)
	group.Wait()
	return f, context.Cause(ctx)
}
