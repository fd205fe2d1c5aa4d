// Package browser opens web pages in a Chromium that no one else can reach and
// lets an approved session read them and act in them. It owns the Chromium
// process, implements the broker's adapter for the browser tools, and gives a
// person a live view with mouse and keyboard.
//
// One Chromium serves everyone: each session gets a browser context of its own
// (cookies, storage, caches and workers apart, in memory only), because a
// second process costs 350 MB and half a second, and because a context that
// never touches the disk leaves nothing behind. The profile folder of the
// process lives under the data folder and only as long as the process.
//
// What a page says is data. It reaches the model as text and widens nothing:
// which origins may become documents is asked from the broker for every
// navigation, redirect, link and form, at the network layer.
package browser
