import { describe, expect, it } from "vitest";
import { foldDesk, openDesk, type Desk } from "./desk";
import type { AppState, Receipt } from "./types";

const bare = { version: "1", instance: "i", yolo: false, controlStopped: false, cwd: "/", deskSeq: 5 } as AppState;

function after(...events: [string, Record<string, unknown>][]): Desk {
  return events.reduce((state, [kind, data], i) => foldDesk(state, { seq: 6 + i, kind, time: "", data }), openDesk(bare, []));
}

describe("the desk", () => {
  it("takes lists that Go leaves out or writes as null for empty ones", () => {
    const desk = openDesk({ ...bare, panels: null, sessions: null, connections: [{ name: "x", models: null }] } as unknown as AppState, null as unknown as Receipt[]);
    expect([desk.panels, desk.sessions, desk.receipts, desk.connections[0]?.models]).toEqual([[], [], [], []]);
  });
  it("ignores what the state said already", () => {
    const desk = openDesk(bare, []);
    expect(foldDesk(desk, { seq: 5, kind: "panel.added", time: "", data: { id: "p" } })).toBe(desk);
  });
  it("adds, changes and removes panels", () => {
    expect(after(["panel.added", { id: "p", title: "a" }], ["panel.changed", { id: "p", title: "b" }]).panels).toMatchObject([{ title: "b" }]);
    expect(after(["panel.added", { id: "p" }], ["panel.removed", { id: "p" }]).panels).toEqual([]);
  });
  it("replaces an entry whole, so that a field that is gone is gone", () => {
    const desk = after(["conversation.added", { id: "c", turn: "t" }], ["conversation.changed", { id: "c" }]);
    expect(desk.conversations[0]?.turn).toBeUndefined();
  });
  it("lists what waits until it is settled, however it was", () => {
    expect(after(["pairing.requested", { id: "a" }]).pairings).toHaveLength(1);
    for (const outcome of ["approved", "rejected", "expired"]) expect(after(["pairing.requested", { id: "a" }], ["pairing.settled", { id: "a", outcome }]).pairings).toEqual([]);
    expect(after(["approval.requested", { id: "a" }], ["approval.settled", { id: "a", outcome: "withdrawn" }]).approvals).toEqual([]);
  });
  it("keeps the newest receipts first, each once", () => {
    const desk = after(["receipt.changed", { id: "1", state: "running" }], ["receipt.changed", { id: "2", state: "running" }], ["receipt.changed", { id: "1", state: "succeeded" }]);
    expect(desk.receipts.map((r) => [r.id, r.state])).toEqual([["2", "running"], ["1", "succeeded"]]);
  });
  it("bounds the receipts that it keeps", () => {
    const many = Array.from({ length: 300 }, (_, i): [string, Record<string, unknown>] => ["receipt.changed", { id: String(i) }]);
    expect(after(...many).receipts).toHaveLength(200);
  });
  it("knows who works in a panel: a session, then a person, then nobody", () => {
    const lease = (data: object): [string, Record<string, unknown>] => ["lease.changed", { resource: "terminal:p", ...data }];
    expect(after(lease({ session: "s", label: "Codex" })).leases["terminal:p"]?.label).toBe("Codex");
    expect(after(lease({ session: "s" }), lease({ person: true })).leases["terminal:p"]).toMatchObject({ person: true });
    expect(after(lease({ session: "s" }), lease({})).leases).toEqual({});
    const opened = openDesk({ ...bare, sessions: [{ id: "s", label: "Codex", leases: ["terminal:q"] }] } as unknown as AppState, []);
    expect(opened.leases["terminal:q"]?.session).toBe("s");
  });
  it("says when control is off, YOLO on, or nothing can be recorded", () => {
    expect(after(["control.changed", { stopped: true, yolo: true, storage: "disk full" }])).toMatchObject({ controlStopped: true, yolo: true, storage: "disk full" });
    expect(after(["control.changed", { storage: "disk full" }], ["control.changed", { stopped: false }]).storage).toBe("");
  });
});
