package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

func (s *stage) useKeystone() {
	who := s.cinder.Identity()
	s.config = map[string]string{"cloud.conf": "[Global]\nauth-url=" + s.cinder.AuthURL() + "\nusername=" + who.User + "\npassword=" + who.Password +
		"\ntenant-name=" + who.Project + "\ndomain-name=" + who.Domain + "\n"}
}

// Parameters that the image does not know end the attempt before Cinder is asked.
func TestUnknownParameters(t *testing.T) {
	t.Parallel()
	s := newStage(t).with(map[string]string{"smartclone": "no", "color": "red"})
	s.provision(t.Context()).want(t, 64,
		`[parameters[smartclone]: Unsupported value: "no": supported values: "true", "false", parameters[color]: Forbidden: is not known; known are type, …`)
	if calls := s.cinder.Calls(); len(calls) > 0 {
		t.Errorf("cinder was asked:\n%s", calls)
	}
}

// The Secret of a provision that failed is not in the way of the next one, and a foreign Secret of that name is left alone.
func TestSecretInTheWay(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.cluster.SetFault(func(_ int, call string) apiserver.Fault {
		return apiserver.Fault{Code: map[string]int{"POST persistentvolumes": 403}[call]}
	})
	s.provision(t.Context()).want(t, 1, "create persistentvolume "+name+": …")
	s.cluster.SetFault(nil)

	// The array may have given other credentials since: the last ones count.
	old := s.cluster.Secrets()[name]
	old.Data["node.session.auth.password"] = []byte("the one before")
	s.cluster.AddSecret(*old)
	s.provision(t.Context()).want(t, 0, "")
	s.wantOne()

	s.cluster.AddSecret(corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}})
	s.delete(t.Context()).want(t, 1, "delete secret flex-provisioners/"+name+": secrets \""+name+"\" is forbidden: the Secret is not one of this claim")
	if len(s.cluster.Secrets()) != 1 {
		t.Error("it was removed")
	}
}

// A server may quote the password. TestMain looks for it in all output as well.
func TestPasswordInAnAnswer(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithKeystone())
	s.useKeystone()
	const text = "Invalid input for field 'identity/password/user/password': "
	s.cinder.Fault(fake.On("POST /v3/auth/tokens").Refuse(400, text+s.cinder.Identity().Password+" is too short."))
	s.provision(t.Context()).want(t, 64, "log in: "+text+"*** is too short. (HTTP 400)")
}
