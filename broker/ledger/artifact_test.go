package ledger

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/control"
)

func TestArtifactLife(t *testing.T) {
	config := testConfig(t.TempDir())
	l := open(t, config)
	a, err := l.ReserveArtifact(t.Context(), Artifact{ID: control.NewID(), Class: "image", Owner: "p", Project: "x", MediaType: "image/png", Bytes: imageBytes})
	if err != nil || a.Ready || a.Expires.IsZero() {
		t.Fatalf("got %+v, %v", a, err)
	}
	if err := l.PublishArtifact(t.Context(), a.ID, imageBytes+1, Hash{1}); err == nil {
		t.Error("an output outgrew its reservation")
	}
	if err := l.PublishArtifact(t.Context(), a.ID, 10, Hash{1}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, l.PublishArtifact(t.Context(), a.ID, 5, Hash{2}), control.TargetNotFound)
	if _, err := l.ReserveArtifact(t.Context(), a); !errors.Is(err, ErrInvalid) {
		t.Errorf("a taken id: got %v, want ErrInvalid", err)
	}
	shut(t, l)
	l = open(t, config)
	all, err := l.Artifacts(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("got %d artifacts, %v", len(all), err)
	}
	a.Ready, a.Bytes, a.Hash = true, 10, Hash{1}
	if diff := cmp.Diff(a, all[0], comparable); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	if err := l.DropArtifact(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, l.DropArtifact(t.Context(), a.ID), control.TargetNotFound)
}

func TestArtifactQuotas(t *testing.T) {
	ready := func(n int, a Artifact) (all []Artifact) {
		a.Ready = true
		for range n {
			all = append(all, a)
		}
		return all
	}
	image := Artifact{Class: "image", Owner: "p", Project: "x", Bytes: imageBytes}
	apk := Artifact{Class: "apk", Owner: "p", Project: "x", Bytes: apkBytes}
	small := Artifact{Class: "file", Owner: "p", Project: "x", Bytes: 1}
	other := func(a Artifact) Artifact { a.Owner, a.Project = "q", "y"; return a }
	for _, row := range []struct {
		name string
		all  []Artifact
		a    Artifact
		fits bool
	}{
		{"first", nil, image, true},
		{"64 rows", ready(63, small), small, true},
		{"65 rows", ready(64, small), small, false},
		{"two at once", []Artifact{small}, small, true},
		{"three at once", []Artifact{small, small}, small, false},
		{"images of one owner", ready(5, image), image, false},
		{"images of two owners", ready(5, image), other(image), true},
		{"all images", append(ready(11, image), ready(10, other(image))...), Artifact{Class: "image", Owner: "r", Bytes: imageBytes}, false},
		{"share of one owner", ready(2, apk), small, false},
		{"share of another", ready(2, apk), other(small), true},
		{"all bytes", append(ready(2, apk), ready(2, other(apk))...), Artifact{Class: "file", Owner: "r", Bytes: 1}, false},
	} {
		if err := fits(row.all, row.a); (err == nil) != row.fits {
			t.Errorf("%s: got %v, want fits %v", row.name, err, row.fits)
		}
	}
	for _, bad := range []Artifact{{}, {Class: "image", ID: "../x", Bytes: 1}, {Class: "image", ID: control.NewID()}} {
		if err := bad.check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: got %v, want ErrInvalid", bad, err)
		}
	}
	image.ID, image.Bytes = control.NewID(), imageBytes+1
	wantCode(t, image.check(), control.ArtifactTooLarge)
}
