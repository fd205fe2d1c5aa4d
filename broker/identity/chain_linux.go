package identity

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// keeperMark is what a keeper and all that it starts have in their environment.
const keeperMark = "LOMI_KEEPER="

// Chain reads a process and its parents, up to the first process or to the
// edge of the name space (parent 0). What it returns was true of each process
// at some time; read it twice and compare.
func Chain(pid int) ([]Process, error) {
	var chain []Process
	for range maxChain {
		p, err := readProcess(pid)
		if err != nil {
			return nil, fmt.Errorf("%w: process %d: %w", ErrNoChain, pid, err)
		}
		chain = append(chain, p)
		if p.PID == 1 || p.Parent == 0 {
			return chain, nil
		}
		pid = p.Parent
	}
	return nil, fmt.Errorf("%w: more than %d processes", ErrNoChain, maxChain)
}

// Fields of /proc/PID/stat behind the name in parentheses.
const (
	statParent  = 1
	statSession = 3
	statStart   = 19
)

func readProcess(pid int) (Process, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	data, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Process{}, err
	}
	p, err := parseStat(pid, data)
	if err != nil {
		return Process{}, err
	}
	// Another user's process, or one that hides from its user (an SSH server's
	// child), does not show its environment. It is no keeper: those show it.
	environment, err := os.ReadFile(dir + "/environ")
	p.Keeper = err == nil && (bytes.HasPrefix(environment, []byte(keeperMark)) ||
		bytes.Contains(environment, []byte("\x00"+keeperMark)))
	return p, nil
}

// parseStat reads a line of /proc. The name may hold spaces and parentheses,
// so that fields are counted from its last closing one.
func parseStat(pid int, data []byte) (Process, error) {
	_, rest, ok := cutLast(data, ')')
	fields := bytes.Fields(rest)
	if !ok || len(fields) <= statStart {
		return Process{}, fmt.Errorf("its stat has %d fields", len(fields))
	}
	parent, err := strconv.Atoi(string(fields[statParent]))
	if err != nil {
		return Process{}, fmt.Errorf("its parent: %w", err)
	}
	session, err := strconv.Atoi(string(fields[statSession]))
	if err != nil {
		return Process{}, fmt.Errorf("its session: %w", err)
	}
	start, err := strconv.ParseUint(string(fields[statStart]), 10, 64)
	if err != nil {
		return Process{}, fmt.Errorf("its start time: %w", err)
	}
	return Process{PID: pid, Parent: parent, Session: session, Start: start}, nil
}

func cutLast(data []byte, sep byte) (before, after []byte, ok bool) {
	i := bytes.LastIndexByte(data, sep)
	if i < 0 {
		return data, nil, false
	}
	return data[:i], data[i+1:], true
}
