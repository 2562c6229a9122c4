// Look-ups beside writers, removal, and hashes of values that look alike.

package labels

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func hashOf(values ...string) uint64 {
	h := Begin()
	for _, v := range values {
		h = Mix(h, v)
	}
	return h
}

func get(t *Table[int], value int, values ...string) int {
	return t.Get(hashOf(values...), values, func() *Child[int] {
		return &Child[int]{Values: values, Value: value}
	}).Value
}

func TestHashesTellValuesApart(t *testing.T) {
	seen := map[uint64]string{}
	var texts [][]string
	for _, n := range []int{0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100} {
		s := strings.Repeat("x", n)
		texts = append(texts, []string{s}, []string{s, ""}, []string{"", s, "y"})
		for i := range n {
			texts = append(texts, []string{s[:i] + "z" + s[i+1:]})
		}
	}
	texts = append(texts, []string{"ab", "c"}, []string{"a", "bc"}, []string{"abc"}, nil)
	for _, values := range texts {
		h, text := hashOf(values...), fmt.Sprintf("%q", values)
		if other, ok := seen[h]; ok && other != text {
			t.Errorf("%s and %s have one hash", other, text)
		}
		seen[h] = text
	}
}

func TestChildrenAreFoundBesideWriters(t *testing.T) {
	table := New[int]()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				if got := get(table, i, "v", fmt.Sprint(i)); got != i {
					t.Errorf("goroutine %d: %d for %d", g, got, i)
					return
				}
			}
		})
	}
	wg.Wait()
	n := 0
	table.Each(func(*Child[int]) { n++ })
	if n != 2000 {
		t.Errorf("%d children", n)
	}
}

func TestRemovedChildrenAreGone(t *testing.T) {
	table := New[int]()
	for round := range 5 {
		for i := range 300 {
			if got := get(table, round, fmt.Sprint(i)); got != round {
				t.Fatalf("round %d: a child of round %d", round, got)
			}
		}
		if !table.RemoveOne(hashOf("7"), []string{"7"}) || table.RemoveOne(hashOf("7"), []string{"7"}) {
			t.Error("a child is not removed exactly once")
		}
		if table.Find(hashOf("7"), []string{"7"}) != nil || table.Find(hashOf("8"), []string{"8"}) == nil {
			t.Error("the wrong child is gone")
		}
		if n := table.Remove(func([]string) bool { return true }); n != 299 {
			t.Errorf("%d removed", n)
		}
	}
	if n := len(*table.slots.Load()); n > 2048 {
		t.Errorf("%d slots after all were removed", n)
	}
}

func TestNoLabelsAreOneChild(t *testing.T) {
	table := New[int]()
	if get(table, 1) != 1 || get(table, 2) != 1 || !table.RemoveOne(hashOf(), nil) || get(table, 3) != 3 {
		t.Error("not one child")
	}
}

func TestOthersAreFoundPastRemovedOnes(t *testing.T) {
	table := New[int]()
	for i := range 1000 {
		get(table, i, fmt.Sprint(i))
	}
	if n := table.Remove(func(values []string) bool { return strings.HasSuffix(values[0], "3") }); n != 100 {
		t.Errorf("%d removed", n)
	}
	for i := range 1000 {
		text := fmt.Sprint(i)
		if found := table.Find(hashOf(text), []string{text}) != nil; found == strings.HasSuffix(text, "3") {
			t.Errorf("%s: found %v", text, found)
		}
	}
}
