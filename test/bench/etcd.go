package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// put writes n objects straight into etcd, in transactions of a hundred, by etcd's JSON gateway: through the API server
// they would take ten times as long. object makes the key below /registry and the object of a number, count says how many
// the API server shows. The objects of a transaction have one resourceVersion: who lists before all of them are shown, and
// watches from there, never sees the others.
func (p *plane) put(ctx context.Context, n int, object func(i int) (string, runtime.Object), count func(context.Context) (int, error)) error {
	if err := p.write(ctx, n, 100, object); err != nil {
		return err
	}
	return shown(ctx, n, count)
}

// shown waits until the API server shows n objects.
func shown(ctx context.Context, n int, count func(context.Context) (int, error)) error {
	last := 0
	err := poll(ctx, 100*time.Millisecond, func(ctx context.Context) (done bool, err error) {
		last, err = count(ctx)
		return last == n, err
	})
	if err != nil {
		return fmt.Errorf("the API server shows %d of %d objects: %w", last, n, err)
	}
	return nil
}

// cached lists what the API server has in its cache, which is what watches begin with.
var cached = metav1.ListOptions{ResourceVersion: "0"}

func (p *plane) claims(ctx context.Context) (int, error) {
	list, err := p.admin.CoreV1().PersistentVolumeClaims(name).List(ctx, cached)
	if err != nil {
		return 0, err
	}
	return len(list.Items), nil
}

func (p *plane) volumes(ctx context.Context) (int, error) {
	list, err := p.admin.CoreV1().PersistentVolumes().List(ctx, cached)
	if err != nil {
		return 0, err
	}
	return len(list.Items), nil
}

// write writes so many objects in each transaction.
func (p *plane) write(ctx context.Context, n, each int, object func(i int) (string, runtime.Object)) error {
	encoder := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), corev1.SchemeGroupVersion)
	return inParallel(ctx, (n+each-1)/each, 4, func(batch int) error {
		type request struct {
			Key   []byte `json:"key"`
			Value []byte `json:"value"`
		}
		var puts []map[string]request
		for i := batch * each; i < min(n, (batch+1)*each); i++ {
			key, o := object(i)
			value, err := runtime.Encode(encoder, o)
			if err != nil {
				return fmt.Errorf("encode %s: %w", key, err)
			}
			puts = append(puts, map[string]request{"requestPut": {[]byte("/registry/" + key), value}})
		}
		body, err := json.Marshal(map[string]any{"success": puts})
		if err != nil {
			return fmt.Errorf("encode transaction: %w", err)
		}
		return p.ask(ctx, "/v3/kv/txn", body)
	})
}

// ask posts a request to etcd.
func (p *plane) ask(ctx context.Context, path string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.server.Etcd+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	defer response.Body.Close()
	if answer, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask etcd: %s: %s", response.Status, answer)
	}
	return nil
}
