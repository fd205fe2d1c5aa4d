package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// ErrNoKeystore says that the system offers no key store, so that keys live for
// the session only.
var ErrNoKeystore = errors.New("no key store of the system can be used")

// errNoKey is a key store without the key.
var errNoKey = errors.New("the key store does not hold the key")

const (
	keystoreLimit = 5 * time.Second // a locked store may ask the person, elsewhere
	secretTool    = "secret-tool"
)

// keystore keeps keys in the Secret Service through secret-tool, the program
// that libsecret ships. The key travels over its standard input and output,
// never as an argument, which other processes could read.
type keystore struct{ program string }

// findKeystore returns the key store, and an error when there is none that
// answers.
func findKeystore(ctx context.Context) (*keystore, error) {
	program, err := exec.LookPath(secretTool)
	if err != nil {
		return nil, fmt.Errorf("%s is not installed: %w", secretTool, ErrNoKeystore)
	}
	k := &keystore{program}
	if _, err := k.get(ctx, "probe", ""); err != nil && !errors.Is(err, errNoKey) {
		return nil, fmt.Errorf("%w: %w", ErrNoKeystore, err)
	}
	return k, nil
}

// attributes bind a key to its destination: another address is another key.
func attributes(name, destination string) []string {
	if destination == "" {
		destination = "default" // an attribute has to have a value
	}
	return []string{"application", "lomi", "connection", name, "destination", destination}
}

func (k *keystore) set(ctx context.Context, name, destination string, key Secret) error {
	args := append([]string{"store", "--label", "Lomi: " + name}, attributes(name, destination)...)
	_, err := k.run(ctx, key.Reveal(), args...)
	return err
}

func (k *keystore) get(ctx context.Context, name, destination string) (Secret, error) {
	out, err := k.run(ctx, "", append([]string{"lookup"}, attributes(name, destination)...)...)
	if err != nil {
		return Secret{}, err
	}
	return NewSecret(out)
}

func (k *keystore) forget(ctx context.Context, name, destination string) error {
	_, err := k.run(ctx, "", append([]string{"clear"}, attributes(name, destination)...)...)
	if errors.Is(err, errNoKey) {
		return nil
	}
	return err
}

// run runs the program. It exits 1 in silence when there is nothing to find.
func (k *keystore) run(ctx context.Context, input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keystoreLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, k.program, args...)
	cmd.Stdin = strings.NewReader(input)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limited{&out}, &limited{&complaint}
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	exit, exited := errors.AsType[*exec.ExitError](err)
	said := strings.TrimSpace(complaint.String())
	switch {
	case err == nil:
		return out.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("asking the key store: no answer within %v", keystoreLimit)
	case exited && exit.ExitCode() == 1 && said == "":
		return "", errNoKey
	}
	return "", fmt.Errorf("asking the key store: %.200s: %w", said, err)
}

// limited keeps the first bytes and drops the rest.
type limited struct{ buf *bytes.Buffer }

var _ io.Writer = limited{}

// Write implements io.Writer.
func (l limited) Write(p []byte) (int, error) {
	if room := 2*maxKey - l.buf.Len(); room > 0 {
		l.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
