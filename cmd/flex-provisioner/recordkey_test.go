package main

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

func secretWith(key []byte) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "flex-system", Name: recordKeySecret}}
	if key != nil {
		secret.Data = map[string][]byte{recordKeyData: key}
	}
	return secret
}

func TestRecordKey(t *testing.T) {
	client := fake.NewClientset(secretWith(nil))
	secrets := client.CoreV1().Secrets("flex-system")
	made, err := recordKey(t.Context(), secrets)
	if err != nil || len(made) != podspec.MinRecordKey || bytes.Equal(made, make([]byte, podspec.MinRecordKey)) {
		t.Fatalf("made a key of %d bytes, %v", len(made), err)
	}
	again, err := recordKey(t.Context(), secrets)
	if err != nil || !bytes.Equal(made, again) {
		t.Errorf("the next process has another key, %v", err)
	}
}

// Another process fills the Secret between the look and the write.
func TestRecordKeyOfAnother(t *testing.T) {
	client := fake.NewClientset(secretWith(nil))
	others := bytes.Repeat([]byte{7}, podspec.MinRecordKey)
	client.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), secretWith(others), "flex-system"); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(corev1.Resource("secrets"), recordKeySecret, nil)
	})
	got, err := recordKey(t.Context(), client.CoreV1().Secrets("flex-system"))
	if err != nil || !bytes.Equal(got, others) {
		t.Errorf("got a key of its own, %v", err)
	}
}

func TestRecordKeyMissing(t *testing.T) {
	for want, client := range map[string]*fake.Clientset{
		"get Secret flex-provisioner-record-key with the key for the records on volumes (kubectl apply -k deploy/base makes it): ": fake.NewClientset(),
		"read Secret flex-provisioner-record-key: data[key] has 5 bytes, it needs 32 or more; ":                                    fake.NewClientset(secretWith([]byte("short"))),
	} {
		if _, err := recordKey(t.Context(), client.CoreV1().Secrets("flex-system")); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s…", err, want)
		}
	}
}
