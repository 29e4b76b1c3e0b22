package artifact

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// blockSize bounds what an insertion or removal has to move. With 512 pointers a
// block is 4 KB, and ten million keys make about 40,000 blocks.
const blockSize = 512

// entry is one key and its versions, the oldest first. It has at least one.
type entry struct {
	key      string
	versions []version
}

func (e *entry) newest() *version { return &e.versions[len(e.versions)-1] }

// index keeps entries in byte order of their keys: sorted blocks, none empty.
type index struct{ blocks [][]*entry }

// find returns where the key is, or where it would be inserted.
func (x *index) find(key string) (block, at int, ok bool) {
	block = sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i][0].key > key }) - 1
	if block < 0 {
		return 0, 0, false
	}
	at, ok = slices.BinarySearchFunc(x.blocks[block], key, func(e *entry, key string) int { return strings.Compare(e.key, key) })
	return block, at, ok
}

// get returns the key's entry, or nil.
func (x *index) get(key string) *entry {
	if block, at, ok := x.find(key); ok {
		return x.blocks[block][at]
	}
	return nil
}

// put returns the key's entry; a new one has no version yet and must be given one.
func (x *index) put(key string) *entry {
	block, at, ok := x.find(key)
	if ok {
		return x.blocks[block][at]
	}
	e := &entry{key: key}
	switch {
	case len(x.blocks) == 0:
		x.blocks = [][]*entry{{e}}
	case len(x.blocks[block]) < blockSize:
		x.blocks[block] = slices.Insert(x.blocks[block], at, e)
	case at == blockSize && block == len(x.blocks)-1: // keys that come in order leave full blocks
		x.blocks = append(x.blocks, []*entry{e})
	default:
		left := slices.Insert(x.blocks[block], at, e)
		right := slices.Clone(left[len(left)/2:])
		clear(left[len(left)/2:])
		x.blocks[block] = left[:len(left)/2]
		x.blocks = slices.Insert(x.blocks, block+1, right)
	}
	return e
}

// remove takes the key out.
func (x *index) remove(key string) {
	block, at, ok := x.find(key)
	if !ok {
		return
	}
	x.blocks[block] = slices.Delete(x.blocks[block], at, at+1)
	if len(x.blocks[block]) == 0 {
		x.blocks = slices.Delete(x.blocks, block, block+1)
	}
}

// from yields the entries whose key is at least the given one.
func (x *index) from(key string) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		block, at, _ := x.find(key)
		for ; block < len(x.blocks); block, at = block+1, 0 {
			for ; at < len(x.blocks[block]); at++ {
				if !yield(x.blocks[block][at]) {
					return
				}
			}
		}
	}
}
