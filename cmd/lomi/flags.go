package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// options are the flags that every command takes.
type options struct {
	data   string
	config string
	json   bool
}

// flags makes a flag set with the options of every command.
func flags(name string, e env) (*flag.FlagSet, *options) {
	fs := flag.NewFlagSet("lomi "+name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints the error, once
	o := &options{}
	fs.StringVar(&o.data, "data", "", "the data `folder`")
	fs.StringVar(&o.config, "config", "", "the settings `folder`")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	return fs, o
}

// parse reads flags wherever they stand among the words, and returns the words.
func parse(fs *flag.FlagSet, o *options, e env, args []string) ([]string, error) {
	var words []string
	for {
		if err := fs.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, flag.ErrHelp // run prints the command's usage
			}
			return nil, usagef("%s", err).withHint("lomi help shows the flags")
		}
		if fs.NArg() == 0 {
			break
		}
		words = append(words, fs.Arg(0))
		args = fs.Args()[1:]
	}
	var err error
	if o.data, err = folder(o.data, e.getenv, "XDG_DATA_HOME", ".local/share"); err != nil {
		return nil, err
	}
	o.config, err = folder(o.config, e.getenv, "XDG_CONFIG_HOME", ".config")
	return words, err
}

// folder resolves one of Lomi's folders: the flag, the XDG variable, the
// platform's default.
func folder(flagged string, getenv func(string) string, variable, fallback string) (string, error) {
	if flagged != "" {
		return filepath.Abs(flagged)
	}
	if dir := getenv(variable); filepath.IsAbs(dir) { // XDG: a relative one is to be ignored
		return filepath.Join(dir, "lomi"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", failf("no home folder: %v", err).withHint("name the folders with --data and --config")
	}
	if runtime.GOOS == "darwin" {
		fallback = "Library/Application Support"
	}
	return filepath.Join(home, fallback, "lomi"), nil
}

// list splits a flag's comma-separated value.
func list(value string) []string {
	var out []string
	for v := range strings.SplitSeq(value, ",") {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, v)
		}
	}
	return out
}
