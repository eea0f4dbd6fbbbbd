package main

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// onLook has something happen at the looks of a watch, which lists claims once each.
func (w *world) onLook(at map[int]func() error) {
	w.run("", "status") // makes the client
	looks := 0
	w.client.PrependReactor("list", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		looks++
		if happens := at[looks]; happens != nil {
			if err := happens(); err != nil {
				return true, nil, err
			}
		}
		return false, nil, nil
	})
}

func (w *world) deleteClaim() error {
	return w.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "team-a", "data")
}

// TestWatchEnds: with 0 when the claim is gone, and not at an error of the moment.
func TestWatchEnds(t *testing.T) {
	w := newWorld(t)
	w.onLook(map[int]func() error{
		2: func() error { return apierrors.NewTooManyRequests("slow down", 1) },
		3: w.deleteClaim,
	})
	output, code := w.run("", "status", "data", "--watch", "-o", "yaml")
	if code != 0 || !strings.HasSuffix(output, "looking again: read claims: slow down\n") || !strings.Contains(output, "\n---\n") || !strings.Contains(output, "phase: Gone\n") {
		t.Errorf("exit code %d:\n%s", code, output)
	}
	w = newWorld(t)
	w.onLook(map[int]func() error{2: func() error { return apierrors.NewUnauthorized("who are you") }})
	if output, code := w.run("", "status", "--watch"); code != exitFailed || !strings.HasSuffix(output, "error: read claims: who are you\n") {
		t.Errorf("exit code %d:\n%s", code, output)
	}
}

// TestWatchInterrupted: both watches end with a shell's code for it.
func TestWatchInterrupted(t *testing.T) {
	for _, args := range [][]string{{"status", "--watch"}, {"status", "data", "--watch"}} {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.ctx = ctx
		w.onLook(map[int]func() error{3: func() error { cancel(); return nil }})
		if output, code := w.run("", args...); code != exitInterrupted || strings.Contains(output, "error:") {
			t.Errorf("%v: exit code %d:\n%s", args, code, output)
		}
	}
}
