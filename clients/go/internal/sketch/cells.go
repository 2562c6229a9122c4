// Log-linear cells in pages, all of one width relative to their values, which doubles when pages run out.
//
// Invariant: there are at most maxPages pages, and a cell holds exactly the values whose keys share its leading bits.

package sketch

import "slices"

const (
	pageBits  = 4
	pageCells = 1 << pageBits
	// maxPages bounds a window's memory: 64 bytes a page and 12 for finding it.
	maxPages = 128
	tabBits  = 9
	tabSize  = 1 << tabBits
	// hashFactor spreads page numbers over the table (2^64 divided by the golden ratio).
	hashFactor = 0x9e3779b97f4a7c15
	// After a collapse this many pages at most remain, so that collapses are rare.
	pagesAfterCollapse = maxPages * 3 / 4
)

type cells struct {
	// shift is the number of key bits below a cell.
	shift uint8
	// index finds pages, nil before the first one.
	index *pageIndex
	// counts holds pageCells counts for each page.
	counts []uint32
}

type pageIndex struct {
	// used pages there are; keys[i] is the number of page i: a key's bits above shift+pageBits.
	used int
	keys [maxPages]uint64
	// tab is a hash table by page number of i+1, or 0.
	tab [tabSize]uint8
}

// reset removes all pages and keeps their memory.
func (c *cells) reset() {
	c.shift = 0
	c.counts = c.counts[:0]
	if c.index != nil {
		*c.index = pageIndex{}
	}
}

// fit sets the finest width at which the sorted keys leave half of the pages free. There must be no pages yet.
func (c *cells) fit(keys []uint64) {
	low, high := uint8(0), uint8(mantissaBits)
	for low < high {
		middle := (low + high) / 2
		if pagesAt(keys, middle) <= maxPages/2 {
			high = middle
		} else {
			low = middle + 1
		}
	}
	c.shift = low
}

func pagesAt(keys []uint64, shift uint8) int {
	n := 0
	for i, key := range keys {
		if i == 0 || key>>(shift+pageBits) != keys[i-1]>>(shift+pageBits) {
			n++
		}
	}
	return n
}

// addAll counts values, of which none is an infinity or NaN; the outermost ones change places with the tails'.
func (c *cells) addAll(values []float64, t *tails) {
	if c.index == nil {
		c.index = &pageIndex{}
	}
	index, counts, shift := c.index, c.counts, c.shift&63
	first, span := t.between()
	for _, v := range values {
		key := keyOf(v)
		if key-first > span {
			key = t.swap(key)
			first, span = t.between()
		}
		cell := key >> shift
		page := cell >> pageBits
		h := page * hashFactor >> (64 - tabBits)
		i := index.tab[h] - 1 // 255 for none
		for i < maxPages && index.keys[i] != page {
			h = (h + 1) % tabSize
			i = index.tab[h] - 1
		}
		if at := uint(i)*pageCells + uint(cell%pageCells); at < uint(len(counts)) {
			counts[at]++
			continue
		}
		c.addOne(key, 1)
		counts, shift = c.counts, c.shift&63
	}
}

// addOne counts n values of one key, in a further page where necessary.
func (c *cells) addOne(key uint64, n uint32) {
	if c.index == nil {
		c.index = &pageIndex{}
	}
	for {
		cell := key >> (c.shift & 63)
		if i, ok := c.page(cell >> pageBits); ok {
			c.counts[i*pageCells+int(cell%pageCells)] += n
			return
		}
		c.collapse()
	}
}

// page returns the index of a page, made when it is missing; false when there is no room for it.
func (c *cells) page(page uint64) (int, bool) {
	h := page * hashFactor >> (64 - tabBits)
	for c.index.tab[h] != 0 {
		if i := int(c.index.tab[h]) - 1; c.index.keys[i] == page {
			return i, true
		}
		h = (h + 1) % tabSize
	}
	n := c.index.used
	if n == maxPages {
		return 0, false
	}
	c.index.tab[h] = uint8(n + 1)
	c.index.keys[n] = page
	c.index.used++
	if cap(c.counts) < (n+1)*pageCells {
		c.counts = slices.Grow(c.counts, min(max(n, 4), maxPages-n)*pageCells)
	}
	c.counts = c.counts[:(n+1)*pageCells]
	clear(c.counts[n*pageCells:])
	return n, true
}

// collapse doubles the width of the cells until pages are free; neighbours are added up.
func (c *cells) collapse() {
	for {
		old := *c.index
		counts := slices.Clone(c.counts)
		shift := c.shift
		c.reset()
		c.shift = shift + 1
		for i, page := range old.keys[:old.used] {
			for j, n := range counts[i*pageCells : (i+1)*pageCells] {
				if n == 0 {
					continue
				}
				cell := (page<<pageBits | uint64(j)) >> 1
				to, _ := c.page(cell >> pageBits) // there are never more pages than before
				c.counts[to*pageCells+int(cell%pageCells)] += n
			}
		}
		if c.index.used <= pagesAfterCollapse {
			return
		}
	}
}

// each calls f for every used cell in the order of its values.
func (c *cells) each(f func(cell uint64, n uint32)) {
	if c.index == nil {
		return
	}
	var order [maxPages]uint8
	pages := order[:c.index.used]
	for i := range pages {
		pages[i] = uint8(i)
	}
	keys := &c.index.keys
	slices.SortFunc(pages, func(a, b uint8) int {
		if keys[a] < keys[b] {
			return -1
		}
		return 1
	})
	for _, i := range pages {
		for j, n := range c.counts[int(i)*pageCells : (int(i)+1)*pageCells] {
			if n != 0 {
				f(keys[i]<<pageBits|uint64(j), n)
			}
		}
	}
}
