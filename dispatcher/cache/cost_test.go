package cache

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// eachField visits the object once for each of its fields that can be large, at most depth fields below, with n elements or
// bytes in it and everything else empty.
func eachField(v reflect.Value, path string, depth, n int, visit func(path string)) {
	switch v.Type() {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.FieldsV1]():
		return
	}

	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", n))
		visit(path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			name(v.Index(i), i)
		}

		visit(path)
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if depth > 0 {
			eachField(v.Index(0), path+"[0]", depth-1, n, visit)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range n {
			key := reflect.New(v.Type().Key()).Elem()
			name(key, i)
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}

		visit(path)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		eachField(v.Elem(), path, depth, n, visit)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && depth > 0 {
				eachField(v.Field(i), path+"."+f.Name, depth-1, n, visit)
			}
		}
	}

	v.SetZero()
}

func name(v reflect.Value, i int) {
	if v.Kind() == reflect.String {
		v.SetString(fmt.Sprint("text-", i))
	}
}

// Whatever field a tenant or an image makes large, an object costs no more than in proportion to that.
func TestCost(t *testing.T) {
	const n, bytesEach, atMost = 20_000, 800, 3 * time.Second
	for _, object := range []metav1.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &corev1.Event{}, &storagev1.StorageClass{},
		&corev1.ConfigMap{}, &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}} {
		fields := 0
		// A claim is treated differently once it is bound.
		eachField(reflect.ValueOf(object).Elem(), reflect.TypeOf(object).String(), 4, n, func(path string) {
			fields++
			l := &transformer{key: dispatchertest.Key}
			for _, o := range variants(object) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				start := time.Now()
				transformed(t, l, o)
				took := time.Since(start)
				runtime.ReadMemStats(&after)
				if allocated := after.TotalAlloc - before.TotalAlloc; allocated > n*bytesEach || took > atMost {
					t.Errorf("%s with %d elements: %d bytes and %s, want no more than %d and %s", path, n, allocated, took, n*bytesEach, atMost)
				}
			}
		})
		if fields < 10 {
			t.Errorf("%T: only %d fields", object, fields)
		}
	}
}

// variants are copies of the object, one of them bound.
func variants(object metav1.Object) []any {
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		bound := o.DeepCopy()
		bound.Spec.VolumeName += "pvc-1"
		bound.Status.Phase = corev1.ClaimBound

		return []any{o.DeepCopy(), bound}
	case *corev1.PersistentVolume:
		return []any{o.DeepCopy()}
	case *corev1.Pod:
		return []any{o.DeepCopy()}
	case *corev1.Event:
		trouble := o.DeepCopy()
		trouble.Reason = "FailedMount"

		return []any{o.DeepCopy(), trouble}
	}

	return []any{object}
}

// What else informers may hand over comes back as it was.
func TestLeavesOthers(t *testing.T) {
	var l transformer
	for _, object := range []any{nil, "text", cache.DeletedFinalStateUnknown{Key: "a/b", Obj: fullVolume(dispatchertest.UID)}, &metav1.PartialObjectMetadata{}} {
		want := object
		if got, err := l.transform(object); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("of %v comes %v (%v)", object, got, err)
		}
	}
}
