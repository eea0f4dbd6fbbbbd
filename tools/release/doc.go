// Package release is for the tools that a release is made and tried with, and for the tests of its chart: what deploy/helm
// renders is what deploy/base, its components and deploy/another.sh make.
package release
