package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"lomi/broker/client"
	"lomi/broker/identity"
	"lomi/broker/mcpserver"
)

// mcp serves the tools to one external host on stdio. It answers the host
// without the daemon and looks for it at the first tool call that needs it.
func mcp(ctx context.Context, e env, args []string) error {
	fs, o := flags("mcp", e)
	var file, key, label string
	fs.StringVar(&file, "discovery-file", "", "the `file` in which the daemon says where it is")
	fs.StringVar(&key, "discovery-key", "", "the daemon's public key in `hex`")
	fs.StringVar(&label, "label", "", "what the person who approves reads")
	words, err := parse(fs, o, e, args)
	if err != nil {
		return err
	}
	switch {
	case len(words) > 0:
		return usagef("lomi mcp takes no word %q", words[0])
	case (file == "") != (key == ""):
		return usagef("--discovery-file and --discovery-key go together")
	}
	// Nothing but messages may stand on stdout; warnings go to stderr, where
	// hosts keep a log of their servers.
	logger := slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	connect := mcpserver.Discover(file, key, logger)
	if file == "" {
		connect = discoverIn(filepath.Join(o.data, "agent-control"), logger)
	}
	return mcpserver.Run(ctx, mcpserver.Config{
		Stdin: e.stdin, Stdout: e.stdout, Connect: connect, Label: client.CleanLabel(label, ""), Version: version, Logger: logger,
	})
}

// discoverIn finds the daemon of a data folder on this machine. The key is read
// anew each time: the folder may be made after the host was started.
func discoverIn(dir string, logger *slog.Logger) func(context.Context, string) (mcpserver.Connection, error) {
	return func(ctx context.Context, label string) (mcpserver.Connection, error) {
		// Loading makes a key where there is none, which is the daemon's to do.
		if _, err := os.Stat(identity.DiscoveryPath(dir)); err != nil {
			return nil, fmt.Errorf("%w: %w", client.ErrUnavailable, err)
		}
		key, err := identity.LoadKey(dir)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", client.ErrUnavailable, err)
		}
		return mcpserver.Discover(identity.DiscoveryPath(dir), identity.PublicHex(key), logger)(ctx, label)
	}
}
