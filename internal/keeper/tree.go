package keeper

import "strings"

// process is one entry of the system's process table. start tells two holders
// of one pid apart.
type process struct {
	pid, ppid, group int
	start            uint64
	tty              uint64
	zombie           bool
}

// maxCommand bounds what is shown of a command line.
const maxCommand = 256

// descendants returns the processes of all whose chain of parents leads to
// root, without root.
func descendants(all []process, root int) []process {
	byParent := make(map[int][]process, len(all))
	for _, p := range all {
		byParent[p.ppid] = append(byParent[p.ppid], p)
	}
	var found []process
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, child := range byParent[queue[0]] {
			// A table read while processes come and go may hold a cycle.
			if !seen[child.pid] {
				seen[child.pid] = true
				found = append(found, child)
				queue = append(queue, child.pid)
			}
		}
	}
	return found
}

// ancestors returns pid and the pids above it.
func ancestors(all []process, pid int) map[int]bool {
	parent := make(map[int]int, len(all))
	for _, p := range all {
		parent[p.pid] = p.ppid
	}
	found := map[int]bool{}
	for ; pid > 0 && !found[pid]; pid = parent[pid] {
		found[pid] = true
	}
	return found
}

// readable makes a command line fit for a list: arguments parted by spaces,
// no control characters, bounded.
func readable(raw []byte) string {
	if len(raw) > maxCommand {
		raw = raw[:maxCommand]
	}
	text := strings.ToValidUTF8(string(raw), "")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
	return strings.TrimSpace(text)
}
