package keeper

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Sweep ends the processes that a former daemon of this instance left behind
// when it was killed together with its keepers. A daemon calls it at start,
// while it holds the lock of its data folder. Trees that are started during
// the sweep are not touched. What emptied its environment and lost its parent
// as well is not found.
func Sweep(ctx context.Context, instance string) (killed int, err error) {
	if instance == "" || strings.ContainsAny(instance, ":\x00") {
		return 0, fmt.Errorf("sweeping: instance %q is not a name", instance)
	}
	return sweep(ctx, func(marker string) bool {
		return strings.HasPrefix(marker, instance+":")
	}, defaultGrace)
}

// sweep ends every process whose marker is wanted, and their descendants.
func sweep(ctx context.Context, wanted func(string) bool, grace time.Duration) (int, error) {
	// Only trees seen now: whatever is started later has another marker.
	markers := map[string]bool{}
	found, err := marked(func(marker string) bool {
		if wanted(marker) {
			markers[marker] = true
		}
		return markers[marker]
	})
	if err != nil || len(found) == 0 {
		return 0, err
	}
	type identity struct {
		pid   int
		start uint64
	}
	counted := map[identity]bool{}
	signalAll := func(processes []process, signals ...syscall.Signal) {
		for _, p := range processes {
			counted[identity{p.pid, p.start}] = true
			for _, sig := range signals {
				signalProcess(p, sig)
			}
		}
	}
	signalAll(found, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGCONT)
	killFrom := time.Now().Add(grace)
	giveUp := killFrom.Add(killBound)
	ticker := time.NewTicker(2 * pollEvery)
	defer ticker.Stop()
	for {
		found, err = marked(func(marker string) bool { return markers[marker] })
		if err != nil || len(found) == 0 {
			return len(counted), err
		}
		now := time.Now()
		if now.After(giveUp) {
			return len(counted), fmt.Errorf("sweeping: %d processes survived KILL", len(found))
		}
		if now.After(killFrom) {
			signalAll(found, syscall.SIGKILL)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			signalAll(found, syscall.SIGKILL)
			return len(counted), fmt.Errorf("sweeping: %w", context.Cause(ctx))
		}
	}
}

// marked lists the live processes with a wanted marker and their descendants,
// never this process or those that it descends from.
func marked(wanted func(string) bool) ([]process, error) {
	all, err := processes()
	if err != nil {
		return nil, fmt.Errorf("sweeping: %w", err)
	}
	spared := ancestors(all, os.Getpid())
	seen := map[int]bool{}
	var found []process
	add := func(p process) {
		if !p.zombie && !spared[p.pid] && !seen[p.pid] {
			seen[p.pid] = true
			found = append(found, p)
		}
	}
	for _, p := range all {
		if spared[p.pid] || !wanted(markerOf(p)) {
			continue
		}
		add(p)
		for _, child := range descendants(all, p.pid) {
			add(child)
		}
	}
	return found, nil
}
