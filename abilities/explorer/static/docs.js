// The HTTP API, described by /openapi.json; with the token that this tab keeps, where one is needed.

const kept = sessionStorage.getItem("abilities-token");

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  validatorUrl: null, // asks another host
  requestInterceptor: (request) => {
    if (kept) request.headers.Authorization ??= `Bearer ${kept}`;
    return request;
  },
});
