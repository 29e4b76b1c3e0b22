package receipt

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"
)

// compressors are at rest between documents. One takes most of a megabyte, more than
// all that is written with it, and Reset leaves nothing of the document before.
var compressors = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(io.Discard, level)
	if err != nil {
		panic("receipt: the level is a valid one: " + err.Error())
	}
	return z
}}

// compress adds to out the one gzip member that holds what write writes.
func compress(out *bytes.Buffer, write func(io.Writer) error) error {
	z, ok := compressors.Get().(*gzip.Writer)
	if !ok {
		panic("receipt: only compressors rest here")
	}
	defer compressors.Put(z)
	z.Reset(out)
	if err := write(z); err != nil {
		return err
	}
	return z.Close()
}

// inflaters are at rest between documents, for the same reason.
var inflaters = sync.Pool{New: func() any { return new(gzip.Reader) }}
