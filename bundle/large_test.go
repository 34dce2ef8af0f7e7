//go:build linux

package bundle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writ-pdp/writ/bundle"
)

// TestDirectoryLarge measures what following costs: a million entities, and
// ten thousand files. It asserts no times. WRIT_LARGE runs it.
func TestDirectoryLarge(t *testing.T) {
	if os.Getenv("WRIT_LARGE") == "" {
		t.Skip("WRIT_LARGE is not set: it takes minutes")
	}
	t.Run("a million entities", func(t *testing.T) {
		dir := write(t, text(t, map[string]string{"schema.cedarschema": "entity User in [Group] = {department: String, level: Long};\nentity Group in [Group];\n"}))
		const files, each = 20, 50_000
		for i := range files {
			var b strings.Builder
			for j := range each {
				fmt.Fprintf(&b, "%s{\"uid\": {\"type\": \"User\", \"id\": \"user-%07d@corp.example.com\"}, \"attrs\": {\"department\": \"department-%03d\", \"level\": %d}, \"parents\": [{\"type\": \"Group\", \"id\": \"team-%04d\"}]}", map[bool]string{true: "[\n", false: ",\n"}[j == 0], i*each+j, j%300, j%9, j%2000)
			}
			b.WriteString("]\n")
			put(t, filepath.Join(dir, fmt.Sprintf("entities/users-%02d.json", i)), b.String())
		}
		var b strings.Builder
		for j := range 2000 {
			fmt.Fprintf(&b, "%s{\"uid\": {\"type\": \"Group\", \"id\": \"team-%04d\"}, \"attrs\": {}, \"parents\": []}", map[bool]string{true: "[", false: ","}[j == 0], j)
		}
		put(t, filepath.Join(dir, "entities/groups.json"), b.String()+"]")
		measure(t, dir)
	})
	t.Run("ten thousand files", func(t *testing.T) {
		dir := write(t, text(t, nil))
		for i := range 9_900 {
			put(t, filepath.Join(dir, fmt.Sprintf("policies/%02d/p%04d.cedar", i%100, i)), strings.ReplaceAll(another, "another", fmt.Sprintf("p%04d", i)))
		}
		measure(t, dir)
	})
}

func measure(t *testing.T, dir string) {
	timed := func(what string, do func() error) {
		t.Helper()
		begun := time.Now()
		must(t, do())
		t.Logf("%-34s %v", what, time.Since(begun).Round(time.Millisecond))
	}
	timed("a look without reading", func() error { return bundle.Look(dir) })
	timed("reading everything", func() error { _, err := bundle.ReadDir(dir); return err })
	var f *following
	timed("the first world", func() error {
		f = follow(t, dir, both, func(d *bundle.DirectoryConfig, _ *bundle.FollowerConfig) { d.Poll = time.Second })
		return nil
	})
	time.Sleep(10 * time.Second) // it trusts the times from then on
	const idle = 60 * time.Second
	before := cpu(t)
	time.Sleep(idle)
	t.Logf("%-34s %.1f %% of a processor", "following, while nothing changes", 100*(cpu(t)-before).Seconds()/idle.Seconds())
	timed("a changed policy, until in force", func() error {
		put(t, filepath.Join(dir, "policies/read.cedar"), another)
		f.holds("another", true)
		return nil
	})
	f.stop()
}

// cpu is the time that this process has taken of any processor.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
