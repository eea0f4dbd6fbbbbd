package cache

import "testing"

// What is asked for all the time stays, whatever comes between; what came once goes.
func TestTableForgets(t *testing.T) {
	var shared internTable[int, *int]
	first, often, long := new(int), new(int), new(int)
	shared.share(-1, 100, first)
	shared.share(-3, longest+1, long)
	for i := range 10 * tableSize / 100 {
		shared.share(i, 100, new(int))
		if shared.share(-2, 100, often) != often {
			t.Fatalf("what is asked for all the time was forgotten after %d others", i)
		}

		if i < tableSize/100-10 && shared.share(-1, 100, new(int)) != first {
			t.Fatalf("it was forgotten after %d others", i)
		}
	}

	again := new(int)
	if shared.share(-1, 100, again) != again {
		t.Error("what came once is still there")
	}

	if shared.share(-3, longest+1, again) != again {
		t.Error("what is too long is shared")
	}

	if n := len(shared.young) + len(shared.old); n > 2*tableSize/100 {
		t.Errorf("%d values stay", n)
	}
}
