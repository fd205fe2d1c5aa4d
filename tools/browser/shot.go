package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"math"
	"time"

	"github.com/chromedp/cdproto/cdp"
	chromepage "github.com/chromedp/cdproto/page"

	"lomi/broker/catalog/artifact"
	"lomi/broker/control"
)

// Bounds of a picture (broker spec 7.2).
const (
	maxPixels = 2_000_000
	maxEdge   = 4096
	maxTries  = 5 // each makes it smaller
	shotBound = 5 * time.Second
)

// shot is a picture of the visible part of a page.
type shot struct {
	png   []byte
	image artifact.Image
}

// screenshot takes a PNG at most maxWidth wide and maxBytes large, smaller
// than the page where it must be.
func (p *page) screenshot(ctx context.Context, maxWidth, maxBytes int) (shot, error) {
	main := p.frameNamed("main")
	if main == nil {
		return shot{}, control.Errorf(control.PanelNotRenderable, "the page is not there yet")
	}
	view, err := run[walkedView](ctx, p, main, "view")
	if err != nil {
		return shot{}, err
	}
	if view.Width < 1 || view.Height < 1 {
		return shot{}, control.Errorf(control.PanelNotRenderable, "the page has no size")
	}
	before := p.count()
	scale := min(1, float64(maxWidth)/view.Width, maxEdge/view.Height, math.Sqrt(maxPixels/(view.Width*view.Height)))
	for range maxTries {
		data, err := p.capture(ctx, view, scale)
		if err != nil {
			return shot{}, err
		}
		if p.count() != before {
			return shot{}, control.Errorf(control.StaleSnapshot, "the page changed while it was captured")
		}
		if len(data) <= maxBytes {
			return p.described(data, view, scale)
		}
		scale *= max(0.4, min(0.85, math.Sqrt(float64(maxBytes)/float64(len(data)))*0.95))
	}
	return shot{}, control.Errorf(control.ArtifactTooLarge, "the picture stays over maxBytes even when small")
}

func (p *page) capture(ctx context.Context, view walkedView, scale float64) ([]byte, error) {
	params := chromepage.CaptureScreenshotParams{Format: chromepage.CaptureScreenshotFormatPng, OptimizeForSpeed: new(true)}
	if scale < 1 {
		params.Clip = &chromepage.Viewport{X: view.X, Y: view.Y, Width: view.Width, Height: view.Height, Scale: scale}
	}
	res, err := cdp.Call(ctx, p.main, chromepage.CaptureScreenshot, params)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, control.Errorf(control.PanelNotRenderable, "the page drew nothing in time")
	}
	if err != nil {
		return nil, fmt.Errorf("capturing a page: %w", err)
	}
	return res.Data, nil
}

func (p *page) described(data []byte, view walkedView, scale float64) (shot, error) {
	size, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return shot{}, fmt.Errorf("reading a picture of a page: %w", err)
	}
	if size.Width*size.Height > maxPixels+maxEdge || size.Width > maxEdge || size.Height > maxEdge {
		return shot{}, control.Errorf(control.ArtifactTooLarge, "the picture has too many pixels")
	}
	return shot{png: data, image: artifact.Image{
		PixelWidth: size.Width, PixelHeight: size.Height, Crop: "viewport", CapturedAtMillis: time.Now().UnixMilli(),
		CSSWidth: view.Width, CSSHeight: view.Height, DeviceScaleFactor: view.Scale, PageZoom: view.Zoom,
		CaptureScaleX: float64(size.Width) / view.Width, CaptureScaleY: float64(size.Height) / view.Height,
		ScrollX: view.X, ScrollY: view.Y,
	}}, nil
}

func (p *page) frameNamed(short string) *frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frameNamedLocked(short)
}
